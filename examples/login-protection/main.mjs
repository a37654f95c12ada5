/**
 * A login that blocks password guessing. An attacker cannot lock out the owner of an account.
 *
 *     npm run build && node examples/login-protection/main.mjs
 *     curl -i http://127.0.0.1:3000/login -d user=ada -d password=lovelace
 *     curl -i http://127.0.0.1:3000/login -d user=ada -d password=wrong
 *
 * A successful login sets a device cookie. From devices without the cookie, five wrong passwords in
 * 15 minutes block the account for all such devices: for 15 minutes, then twice as long each time.
 * Twenty wrong passwords in an hour block the address. A device with the cookie has its own key, so
 * an attacker who blocks the account does not block the devices of its owner. A stolen cookie
 * allows five guesses; then the key of the device is blocked.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import express from 'express';
import { createLimiter } from 'sluice';
import { addressKey } from 'sluice/http';

// In production, store scrypt or argon2 hashes, and use the same secret in all processes.
const passwords = new Map([
  ['ada', 'lovelace'],
  ['grace', 'hopper'],
]);
const secret = process.env.DEVICE_SECRET ?? randomBytes(32);

const limiter = createLimiter({
  policies: {
    account: { limit: 5, window: '15m', block: { for: '15m', factor: 2, max: '1d' } },
    address: { limit: 20, window: '1h', block: '1h' },
    device: { limit: 5, window: '15m', block: '15m' },
  },
});

/** Returns the normalized account name, so that all spellings share one key. */
const accountOf = ({ body }) => String(body?.user).trim().toLowerCase().slice(0, 100);

/** Signs a device for one account, so that the cookie of one account is worthless for others. */
const signatureOf = (account, device) =>
  createHmac('sha256', secret).update(`${device} ${account}`).digest();

function cookieFor(account) {
  const device = randomBytes(16).toString('hex');
  const value = `${device}.${signatureOf(account, device).toString('hex')}`;
  return `device=${value}; Path=/login; Max-Age=31536000; HttpOnly; Secure; SameSite=Strict`;
}

/** Returns the device of a valid cookie for this account, or undefined. */
function deviceOf(request, account) {
  const cookie = /(?:^|; )device=([0-9a-f]{32})\.([0-9a-f]{64})(?:;|$)/;
  const [, device, signature] = cookie.exec(request.headers.cookie ?? '') ?? [];
  if (device === undefined) return undefined;
  const isValid = timingSafeEqual(Buffer.from(signature, 'hex'), signatureOf(account, device));
  return isValid ? device : undefined;
}

function limitsOf(request, account) {
  const device = deviceOf(request, account);
  if (device !== undefined) return [{ policy: 'device', key: [device, account] }];
  return [
    // Unknown accounts count too, otherwise a block would reveal which accounts exist.
    { policy: 'account', key: account },
    // Behind a proxy, set Express's `trust proxy`.
    { policy: 'address', key: addressKey(request.ip) },
  ];
}

async function login(request, response) {
  const account = accountOf(request);
  // Charge before the password is checked, so that concurrent guesses cannot slip through.
  const decision = await limiter.check(limitsOf(request, account));
  if (!decision.allowed) {
    const seconds = Math.ceil(decision.retryAfterMs / 1000);
    response.status(429).set('Retry-After', String(seconds));
    response.json({ error: `Too many failed logins. Try again in ${seconds} seconds.` });
  } else if (passwords.has(account) && passwords.get(account) === request.body.password) {
    await limiter.refund(decision.receipt);
    if (!deviceOf(request, account)) response.set('Set-Cookie', cookieFor(account));
    response.json({ welcome: account });
  } else {
    response.status(401).json({ error: 'Wrong user or password.' });
  }
}

const app = express();
app.use(express.urlencoded({ extended: false }), express.json());
app.post('/login', login);

const server = app.listen(process.env.PORT ?? 3000, '127.0.0.1', () => {
  console.log(`Listening on http://127.0.0.1:${server.address().port}`);
});
