/**
 * A login that cannot be guessed at: only wrong passwords count, five in 15 minutes for an account
 * and ten in an hour for an address. Both limits are decided in one step.
 *
 *     npm run build && node examples/login/main.mjs
 *     curl -i http://127.0.0.1:3000/login -d user=ada -d password=wrong
 *     curl -i http://127.0.0.1:3000/login -d user=ada -d password=lovelace
 *
 * Who has failed too often gets a 429 that tells when to come back, even with the right password:
 * otherwise guessing could go on. Passwords are not looked at any more, and nothing is counted.
 */
import express from 'express';
import { rateLimit } from 'sluice/express';

// Real ones are hashed, with scrypt or argon2.
const passwords = new Map([
  ['ada', 'lovelace'],
  ['grace', 'hopper'],
]);

/** One account is one key, however its name is written. Names end at 100 characters. */
const accountOf = ({ body }) => String(body?.user).trim().toLowerCase().slice(0, 100);

const limitFailures = rateLimit({
  // A try is charged at once, so that many at the same time cannot slip through, and given back
  // if it succeeds. A failure is an answer with the status 400 or above.
  count: 'failures',
  limits: [
    // Accounts that do not exist count too, or the limit would tell which ones do.
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
