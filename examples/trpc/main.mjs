/**
 * tRPC: a limit for each procedure call, as a tRPC middleware.
 *
 *     npm run build && node examples/trpc/main.mjs
 *     for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/hello; done
 *
 * The sixth response is a 429 with Retry-After. A batch of calls in one HTTP request is charged for
 * each call; a limit in front of the HTTP server would count it once.
 */
import { initTRPC, TRPCError } from '@trpc/server';
import { createHTTPServer } from '@trpc/server/adapters/standalone';
import { createLimiter } from 'sluice';

// In production, verify a session or a token.
const users = new Map([['token-of-ada', 'ada']]);

const limiter = createLimiter({
  policies: {
    perClient: { limit: 5, window: '10s', costs: { hello: 1, report: 3 } },
  },
});

/** The key of a call is the authenticated user, or else the address of the connection. */
function createContext({ req }) {
  const user = users.get(req.headers.authorization?.replace('Bearer ', ''));
  const key = user === undefined ? ['address', req.socket.remoteAddress] : ['user', user];
  return { key, retryAfterMs: 0 };
}

const t = initTRPC.context().create();

const limited = t.procedure.use(async ({ ctx, path, next }) => {
  const { allowed, retryAfterMs } = await limiter.check('perClient', ctx.key, { operation: path });
  if (allowed) return next();
  ctx.retryAfterMs = Math.max(ctx.retryAfterMs, retryAfterMs);
  const seconds = Math.ceil(retryAfterMs / 1000);
  throw new TRPCError({ code: 'TOO_MANY_REQUESTS', message: `Try again in ${seconds} s.` });
});

const router = t.router({
  hello: limited.query(() => 'world'),
  report: limited.query(() => ({ rows: 1000 })),
});

const server = createHTTPServer({
  router,
  createContext,
  responseMeta({ ctx }) {
    const seconds = Math.ceil((ctx?.retryAfterMs ?? 0) / 1000);
    return seconds === 0 ? {} : { headers: new Headers({ 'retry-after': `${seconds}` }) };
  },
});
server.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
