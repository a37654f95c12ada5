/**
 * Load generator with keep-alive connections, as a separate process. Each client sends requests
 * until a response has `Connection: close`. By then it must have a response to every request.
 *
 *     node stop-load.mjs PORT '[{ "connections": 300, "batch": 1, "pauseMs": 0 }]'
 *
 * Groups with `reconnects` open a new connection after each closed one, until it is refused. Groups
 * with `sendsClose` send `Connection: close` with each request.
 */
import { connect } from 'node:net';

const [port, groups] = process.argv.slice(2);
const results = { sent: 0, completed: 0, denied: 0, failed: 0, ended: 0, refused: 0, problems: [] };
let largestInFlight = 0;
let served = 0;

const body = JSON.stringify({ policy: 'many', key: 'k' });
const requestOf = (connection) =>
  `POST /v1/check HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: ${connection}\r\n` +
  `content-length: ${body.length}\r\n\r\n${body}`;

/** Calls `take` for each complete response at the start of the text. Returns the rest. */
function takeResponses(text, take) {
  for (;;) {
    const head = text.indexOf('\r\n\r\n');
    if (head < 0) return text;
    const [, length] = /content-length: (\d+)/i.exec(text.slice(0, head));
    const end = head + 4 + Number(length);
    if (text.length < end) return text;
    take(text.slice(0, head), text.slice(head + 4, end));
    text = text.slice(end);
  }
}

function client(group) {
  const { batch, pauseMs, reconnects, sendsClose } = group;
  const request = requestOf(sendsClose ? 'close' : 'keep-alive');
  return new Promise((resolve) => {
    const socket = connect(Number(port), '127.0.0.1');
    let pending = 0;
    let isClosing = false;
    let isRefused = false;
    let isServed = false;
    let rest = '';
    const send = () => {
      if (isClosing || socket.destroyed) return;
      pending += batch;
      results.sent += batch;
      largestInFlight = Math.max(largestInFlight, results.sent - results.completed);
      socket.write(request.repeat(batch));
    };
    const take = (head, content) => {
      pending--;
      results.completed++;
      if (!isServed) served++;
      isServed = true;
      if (!head.startsWith('HTTP/1.1 200 ')) results.problems.push(head.split('\r\n')[0]);
      else if (!JSON.parse(content).allowed) results.denied++;
      if (!/\r\nconnection: close/i.test(head)) return;
      isClosing = true;
      if (pending > 0) results.problems.push(`connection closing with ${pending} pending requests`);
    };
    socket.on('connect', send);
    socket.on('data', (chunk) => {
      rest = takeResponses(rest + chunk.toString('latin1'), take);
      if (pending === 0) setTimeout(send, pauseMs * Math.random());
    });
    socket.on('error', ({ code }) => {
      isRefused = reconnects && code === 'ECONNREFUSED';
      if (isRefused) results.refused++;
      else results.problems.push(code);
    });
    socket.on('close', () => {
      results.failed += pending;
      if (isClosing) results.ended++;
      if (reconnects && isClosing) resolve(client(group));
      else resolve();
    });
  });
}

const clients = JSON.parse(groups).flatMap((group) =>
  Array.from({ length: group.connections }, () => client(group)),
);
const poll = setInterval(() => {
  if (served < clients.length) return;
  clearInterval(poll);
  process.send({ isLoaded: true });
}, 20);
await Promise.all(clients);
process.send({ ...results, largestInFlight });
process.disconnect();
