/** Express 5 (and 4, at the end), as its users write it. */
import express, { type Request } from 'express';
import express4 from 'express4';
import rateLimitDefault, {
  ipKeyGenerator,
  type Options,
  type RateLimitInfo,
  type RateLimitRequestHandler,
  rateLimit,
} from 'sluice/express';

const app = express();

// Inline.
app.use(
  rateLimit({
    limit: 100,
    window: '15m',
    keyGenerator: (req) => req.ip,
    skip: (req) => req.path === '/health',
    handler: (req, res, _next, info) => {
      res
        .status(info.statusCode)
        .json({ path: req.originalUrl, retry: info.decision?.retryAfterMs });
    },
    requestWasSuccessful: async (_req, res) => res.statusCode < 400,
    settle: ({ request, bytes }) => (request.method === 'GET' ? bytes : undefined),
  }),
);

// In constants.
const keyGenerator = (req: Request) => req.ip;
const keyOfUser = async (req: Request) => req.get('x-user') ?? ipKeyGenerator(req.ip ?? '');
const options: Partial<Options> = { windowMs: 60_000, limit: 5, keyGenerator: (req) => req.ip };
const more = { window: '1h', limit: 5, cost: 2 } as const;
const limiter: RateLimitRequestHandler = rateLimit({ ...options, standardHeaders: 'draft-8' });
app.use('/login', limiter, rateLimit({ limit: 1, keyGenerator }), rateLimit(more));
app.post('/', rateLimitDefault({ max: 1, keyGenerator: keyOfUser }), (req, res) => {
  const info: RateLimitInfo | undefined = req.rateLimit;
  res.json({ remaining: info?.remaining, resets: req.rateLimit?.resetTime.toISOString() });
});
await limiter.resetKey('ada');

// A request with properties of other middleware.
interface UserRequest extends Request {
  user: { id: string; isPro: boolean };
}
app.use(
  rateLimit({
    limit: (req: UserRequest) => (req.user.isPro ? 1000 : 100),
    key: (req: UserRequest) => req.user.id,
  }),
);

const four = express4();
four.use(rateLimit({ limit: 100, window: '1m', keyGenerator: (req) => req.ip }));
four.get('/', limiter, (req, res) => {
  res.json(req.rateLimit?.used);
});
