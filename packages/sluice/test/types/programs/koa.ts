import Koa, { type Context } from 'koa';
import { type KoaOptions, rateLimit } from 'sluice/koa';

const app = new Koa();
app.use(
  rateLimit({
    limit: 100,
    window: '1m',
    key: (ctx) => ctx.ip,
    skip: (ctx) => ctx.path === '/health',
    handler: (ctx, { decision }) => {
      ctx.body = { retry: decision?.retryAfterMs };
    },
  }),
);

const options: KoaOptions = { limit: 5, window: '1h', key: (ctx) => ctx.get('x-user') };
const limit = rateLimit(options);
app.use(limit);
const key = (ctx: Context) => ctx.ip;
app.use(rateLimit({ limit: 5, key }));
app.use((ctx) => {
  const remaining: number | undefined = ctx.state.rateLimit?.remaining;
  ctx.body = { remaining };
});
