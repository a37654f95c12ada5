/**
 * The load: a process that keeps requests in flight, one on each of several connections that stay
 * open, each of what is `asked` in turn. It knows as little of HTTP as it can do with, so that the
 * server is what takes the time.
 */
import { once } from 'node:events';
import { connect } from 'node:net';

const HOST = '127.0.0.1';
const ROOT = { method: 'GET', path: '/' };
const HEAD_END = '\r\n\r\n';
const LAST_CHUNK = '\r\n0\r\n\r\n';

/** The status of an answer and how long all of it is, or undefined while some of it is missing. */
export function readAnswer(text) {
  const head = text.indexOf(HEAD_END);
  if (head < 0) return undefined;
  const status = Number(text.slice(9, 12));
  const fields = text.slice(0, head).toLowerCase();
  const start = head + HEAD_END.length;
  const length = /\r\ncontent-length: *(\d+)/.exec(fields);
  if (length === null && !fields.includes('\r\ntransfer-encoding: chunked')) {
    throw new Error(`an answer of unknown length: ${fields}`);
  }
  // The bodies here are one line of JSON or text, so that no chunk of theirs looks like the last.
  const last = text.indexOf(LAST_CHUNK, head);
  const end = length ? start + Number(length[1]) : last < 0 ? Infinity : last + LAST_CHUNK.length;
  return text.length < end ? undefined : { status, end };
}

/** A request as it goes over the wire; `fields` are lines of its head. */
function requestText({ method, path, fields = [], body }) {
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${HOST}`, 'Connection: keep-alive'];
  return Buffer.from(`${[...head, ...fields, ...length].join('\r\n')}${HEAD_END}${body ?? ''}`);
}

/** Sends one request after the other for as long as `next` says so; ends when it does not. */
function converse(socket, texts, next, isExpected) {
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
        const answer = readAnswer(received);
        if (answer === undefined) return;
        // Nothing else was asked for, so there can be nothing after the answer.
        if (!isExpected(answer.status) || answer.end !== received.length) {
          throw new Error(`answered with ${received}`);
        }
        received = '';
        send();
      } catch (error) {
        reject(error);
      }
    });
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('the server has closed a connection')));
    send();
  });
}

async function open(port) {
  const socket = connect(port, HOST);
  socket.setNoDelay();
  await once(socket, 'connect');
  return socket;
}

/** Answers what a request takes in time, and costs here in processor time, in nanoseconds. */
export async function run(port, { connections, status, asked = [ROOT] }, requests) {
  const texts = asked.map(requestText);
  const sockets = await Promise.all(Array.from({ length: connections }, () => open(port)));
  let left = requests;
  const next = () => --left;
  try {
    const cpu = process.cpuUsage();
    const start = process.hrtime.bigint();
    await Promise.all(sockets.map((each) => converse(each, texts, next, (got) => got === status)));
    const elapsed = Number(process.hrtime.bigint() - start);
    const { user, system } = process.cpuUsage(cpu);
    return { time: elapsed / requests, load: (1e3 * (user + system)) / requests };
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}

export const contenders = { load: () => ({ run }) };
