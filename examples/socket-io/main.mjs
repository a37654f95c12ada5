/**
 * Socket.IO: at most 10 new connections per minute for each address, and 5 events per 10 s for each
 * user. All connections of a user share the limit of the user.
 *
 *     npm run build && node examples/socket-io/main.mjs
 *
 * A denied event is acknowledged with { error: 'rate_limited', retryAfterMs } and does not reach
 * its handler. After 10 denied events the server disconnects the client. A denied connection gets
 * `connect_error` with `error.data.retryAfterMs`.
 */
import { createServer } from 'node:http';
import { createLimiter } from 'sluice';
import { Server } from 'socket.io';

const MAX_DENIED = 10;
// In production, verify a session or a token.
const users = new Map([
  ['token-of-ada', 'ada'],
  ['token-of-bob', 'bob'],
]);

const limiter = createLimiter({ policies: { connections: '10/1m', events: '5/10s' } });
const server = createServer();
const io = new Server(server, { maxHttpBufferSize: 16 * 1024 });

const connectError = (message, data) => Object.assign(new Error(message), { data });

io.use(async (socket, next) => {
  // The address of the connection. Behind a proxy, use `clientAddress` of sluice/http.
  const { address } = socket.handshake;
  const { allowed, retryAfterMs } = await limiter.check('connections', address);
  if (!allowed) return next(connectError('rate_limited', { retryAfterMs }));
  socket.data.user = users.get(socket.handshake.auth.token);
  return next(socket.data.user === undefined ? connectError('unauthorized') : undefined);
});

io.on('connection', (socket) => {
  let denied = 0;
  socket.use(async (packet, next) => {
    const { allowed, retryAfterMs } = await limiter.check('events', socket.data.user);
    if (allowed) return next();
    const acknowledge = packet.at(-1);
    const result = { error: 'rate_limited', retryAfterMs };
    if (typeof acknowledge === 'function') acknowledge(result);
    else socket.emit('rate_limited', result);
    if (++denied === MAX_DENIED) socket.disconnect(true);
  });
  socket.on('say', (text, acknowledge) => acknowledge?.({ said: String(text) }));
});

server.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
