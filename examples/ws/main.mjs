/**
 * WebSocket messages with the package ws: at most 10 new connections per minute and 5 messages per
 * 10 s for each address.
 *
 *     npm run build && node examples/ws/main.mjs
 *     npx wscat -c ws://127.0.0.1:3000
 *
 * A denied message gets the reply {"error":"rate_limited","retryAfterMs":...}. After 10 denied
 * messages the server closes the connection with code 1008. A denied connection gets a 429.
 */
import { createServer } from 'node:http';
import { createLimiter } from 'sluice';
import { WebSocketServer } from 'ws';

const MAX_DENIED = 10;

const limiter = createLimiter({ policies: { connections: '10/1m', messages: '5/10s' } });
const sockets = new WebSocketServer({ noServer: true, maxPayload: 16 * 1024 });

const server = createServer((_request, response) => response.writeHead(426).end());

server.on('upgrade', async (request, socket, head) => {
  // The address of the connection, which a client cannot forge. Behind a proxy, use `clientAddress`
  // of sluice/http. A key per connection would not limit clients that open many of them.
  const key = socket.remoteAddress;
  socket.on('error', () => socket.destroy());
  const { allowed, retryAfterMs } = await limiter.check('connections', key);
  if (allowed) {
    sockets.handleUpgrade(request, socket, head, (client) => serve(client, key));
    return;
  }
  const seconds = Math.ceil(retryAfterMs / 1000);
  socket.end(
    `HTTP/1.1 429 Too Many Requests\r\nRetry-After: ${seconds}\r\n` +
      'Content-Length: 0\r\nConnection: close\r\n\r\n',
  );
});

function serve(client, key) {
  let denied = 0;
  client.on('error', () => client.terminate());
  client.on('message', async (data) => {
    const { allowed, retryAfterMs } = await limiter.check('messages', key);
    if (allowed) {
      client.send(JSON.stringify({ echo: String(data) }));
      return;
    }
    client.send(JSON.stringify({ error: 'rate_limited', retryAfterMs }));
    // Disconnect a client that ignores the replies. The code 1008 means "policy violation".
    if (++denied === MAX_DENIED) client.close(1008, 'rate limit');
  });
}

server.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
