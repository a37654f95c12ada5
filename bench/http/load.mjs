/**
 * The load generator: a process with one request in flight on each of several keep-alive
 * connections. It parses only as much of HTTP as necessary, so that the server is the bottleneck.
 */
import { once } from 'node:events';
import { connect } from 'node:net';

const HOST = '127.0.0.1';
const ROOT = { method: 'GET', path: '/' };
const HEAD_END = '\r\n\r\n';
const LAST_CHUNK = '\r\n0\r\n\r\n';

/** Returns the status and the length of a response, or undefined while it is incomplete. */
export function readResponse(text) {
  const head = text.indexOf(HEAD_END);
  if (head < 0) return undefined;
  const status = Number(text.slice(9, 12));
  const headers = text.slice(0, head).toLowerCase();
  const start = head + HEAD_END.length;
  const length = /\r\ncontent-length: *(\d+)/.exec(headers);
  if (length === null && !headers.includes('\r\ntransfer-encoding: chunked')) {
    throw new Error(`Expected Content-Length or chunks, got ${headers}`);
  }
  // The bodies are single lines of JSON or text, so the text of the last chunk cannot occur in
  // them.
  const last = text.indexOf(LAST_CHUNK, head);
  const end = length ? start + Number(length[1]) : last < 0 ? Infinity : last + LAST_CHUNK.length;
  return text.length < end ? undefined : { status, end };
}

/** Returns the bytes of a request. `fields` are additional header lines. */
function requestText({ method, path, fields = [], body }) {
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${HOST}`, 'Connection: keep-alive'];
  return Buffer.from(`${[...head, ...fields, ...length].join('\r\n')}${HEAD_END}${body ?? ''}`);
}

/**
 * Sends one request after the other, until `next` returns a negative number. The number selects the
 * request from `texts`.
 */
function sendAll(socket, texts, next, isExpected) {
  return new Promise((resolve, reject) => {
    let received = '';
    const send = () => {
      const turn = next();
      if (turn < 0) resolve();
      else socket.write(texts[turn % texts.length]);
    };
    socket.on('data', (data) => {
      received += data.latin1Slice();
      try {
        const response = readResponse(received);
        if (response === undefined) return;
        // Only one request was sent, so no bytes may follow its response.
        if (!isExpected(response.status) || response.end !== received.length) {
          throw new Error(`Unexpected response ${received}`);
        }
        received = '';
        send();
      } catch (error) {
        reject(error);
      }
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('The server closed a connection')));
    send();
  });
}

async function open(port) {
  const socket = connect(port, HOST);
  socket.setNoDelay();
  await once(socket, 'connect');
  return socket;
}

/** Returns the time and the CPU time of this process per request, in nanoseconds. */
export async function run(port, { connections, status, messages = [ROOT] }, requests) {
  const texts = messages.map(requestText);
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
  let left = requests;
  const next = () => --left;
  try {
    const cpu = process.cpuUsage();
    const start = process.hrtime.bigint();
    await Promise.all(sockets.map((each) => sendAll(each, texts, next, (got) => got === status)));
    const elapsed = Number(process.hrtime.bigint() - start);
    const { user, system } = process.cpuUsage(cpu);
    return { time: elapsed / requests, load: (1e3 * (user + system)) / requests };
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

export const contenders = { load: () => ({ run }) };
