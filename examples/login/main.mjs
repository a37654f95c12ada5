/**
 * A login with brute-force protection: only wrong passwords count, five per 15 minutes for an
 * account and ten per hour for an address. Both limits are checked atomically.
 *
 *     npm run build && node examples/login/main.mjs
 *     curl -i http://127.0.0.1:3000/login -d user=ada -d password=wrong
 *     curl -i http://127.0.0.1:3000/login -d user=ada -d password=lovelace
 *
 * After too many failures, the response is a 429 with the time to retry. The server then neither
 * checks the password nor charges the request: even the right password gets a 429, otherwise an
 * attacker could continue to guess.
 */
import express from 'express';
import { rateLimit } from 'sluice/express';

// In production, store scrypt or argon2 hashes.
const passwords = new Map([
  ['ada', 'lovelace'],
  ['grace', 'hopper'],
]);

/** Returns the normalized account name, so that all spellings share one key. */
const accountOf = ({ body }) => String(body?.user).trim().toLowerCase().slice(0, 100);

const limitFailures = rateLimit({
  // A request is charged when it arrives and refunded if it succeeds, so concurrent requests cannot
  // slip through. A status of 400 or above is a failure.
  count: 'failures',
  limits: [
    // Unknown accounts count too, otherwise the limit would reveal which accounts exist.
    { name: 'account', limit: 5, window: '15m', key: (request) => ['account', accountOf(request)] },
    { name: 'address', limit: 10, window: '1h', key: 'address' },
  ],
  handler(_request, response, _next, { statusCode, decision }) {
    const { retryAfterMs, atMs } = decision;
    const minutes = Math.ceil(retryAfterMs / 60_000);
    response.status(statusCode).json({
      error: `Too many failed logins. Try again in ${minutes} minutes.`,
      retryAt: new Date(atMs + retryAfterMs).toISOString(),
    });
  },
});

function login(request, response) {
  const account = accountOf(request);
  const isRight = passwords.has(account) && passwords.get(account) === request.body.password;
  if (isRight) response.json({ welcome: account });
  else response.status(401).json({ error: 'Wrong user or password.' });
}

const app = express();
app.use(express.urlencoded({ extended: false }), express.json());
app.post('/login', limitFailures, login);

const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
