/**
 * Clients with connections that they keep, as a process of its own. Each sends requests until an
 * answer says that the connection ends, and must by then have an answer to every one.
 *
 *     node stop-load.mjs PORT '[{ "connections": 300, "batch": 1, "pauseMs": 0 }]'
 *
 * Those with `returns` connect again when a connection has ended, until they are refused. Those
 * with `hasOne` have it end with each answer, so they always do.
 */
import { connect } from 'node:net';

const [port, groups] = process.argv.slice(2);
const results = { sent: 0, answered: 0, denied: 0, failed: 0, ended: 0, refused: 0, problems: [] };
let largestInFlight = 0;
let served = 0;

const body = JSON.stringify({ policy: 'many', key: 'k' });
const requestOf = (connection) =>
  `POST /v1/check HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: ${connection}\r\n` +
  `content-length: ${body.length}\r\n\r\n${body}`;

/** Removes complete responses from the front of the received text; returns the rest. */
function takeAnswers(text, take) {
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
  const { batch, pauseMs, returns, hasOne } = group;
  const request = requestOf(hasOne ? 'close' : 'keep-alive');
  return new Promise((resolve) => {
    const socket = connect(Number(port), '127.0.0.1');
    let owed = 0;
    let isTold = false;
    let isRefused = false;
    let isServed = false;
    let rest = '';
    const send = () => {
      if (isTold || socket.destroyed) return;
      owed += batch;
      results.sent += batch;
      largestInFlight = Math.max(largestInFlight, results.sent - results.answered);
      socket.write(request.repeat(batch));
    };
    const take = (head, content) => {
      owed--;
      results.answered++;
      if (!isServed) served++;
      isServed = true;
      if (!head.startsWith('HTTP/1.1 200 ')) results.problems.push(head.split('\r\n')[0]);
      else if (!JSON.parse(content).allowed) results.denied++;
      if (!/\r\nconnection: close/i.test(head)) return;
      isTold = true;
      if (owed > 0) results.problems.push(`response to end with ${owed} unanswered`);
    };
    socket.on('connect', send);
    socket.on('data', (chunk) => {
      rest = takeAnswers(rest + chunk.toString('latin1'), take);
      if (owed === 0) setTimeout(send, pauseMs * Math.random());
    });
    socket.on('error', ({ code }) => {
      isRefused = returns && code === 'ECONNREFUSED';
      if (isRefused) results.refused++;
      else results.problems.push(code);
    });
    socket.on('close', () => {
      results.failed += owed;
      if (isTold) results.ended++;
      if (returns && isTold) resolve(client(group));
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
