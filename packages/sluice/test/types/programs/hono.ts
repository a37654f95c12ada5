import { Hono } from 'hono';
import { type HonoOptions, rateLimit } from 'sluice/hono';

const app = new Hono();
app.use(
  rateLimit({
    limit: 100,
    window: '1m',
    key: (c) => c.req.header('x-user'),
    handler: (c, { decision }) => c.json({ retry: decision?.retryAfterMs }, 429),
  }),
);
app.get('/', (c) => c.json({ remaining: c.get('rateLimit')?.remaining }));
app.get('/var', (c) => c.json({ remaining: c.var.rateLimit?.remaining }));

type Env = { Bindings: { TOKEN: string }; Variables: { user: string } };
const options: HonoOptions<Env> = {
  limit: 10,
  window: '10s',
  key: (c) => c.get('user'),
  address: (c) => c.req.header('cf-connecting-ip'),
};
const typed = new Hono<Env>();
typed.use('/api/*', rateLimit(options));
typed.get('/', rateLimit<Env>({ limit: 1, skip: async (c) => c.env.TOKEN === '' }), (c) => {
  return c.text(`${c.get('user')} ${c.get('rateLimit')?.key}`);
});
