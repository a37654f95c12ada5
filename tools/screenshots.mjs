/**
 * Takes the screenshots of the dashboard in docs/pictures, from a real service under load. Requires
 * `npm run build` and Chromium (path in CHROMIUM, default /usr/bin/chromium).
 *
 *     node tools/screenshots.mjs [FOLDER]   (default: docs/pictures)
 *
 * Takes 45 seconds, because the charts need time to fill.
 */
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const root = fileURLToPath(new URL('../', import.meta.url));
const folder = process.argv[2] ?? join(root, 'docs/pictures');

const TRAFFIC_MS = 38_000;
const TURN_MS = 50;
/** Maximum size of a screenshot, to keep the repository small. */
const MAX_BYTES = 200_000;

const CONFIG = `policies:
  checkout: 30 per 10s
  login:
    limit: 5
    window: 1m
    algorithm: sliding-log
  search:
    limit: 60
    window: 10s
    algorithm: sliding-counter
  uploads:
    limit: 40
    window: 1m
    algorithm: token-bucket
    burst: 20
  webhooks:
    limit: 600
    window: 1m
    algorithm: sliding-buckets
  freePlan:
    limit: 100
    window: 1m
    shadow: true
`;

/**
 * The load of each policy: `rate` calls per second on average, from `clients` clients. The rate
 * varies by a factor from 1 - `swing` to 1 + `swing` with the period `everyMs`.
 */
const LOADS = [
  { policy: 'checkout', rate: 9, swing: 0.5, everyMs: 14_000, clients: 6 },
  { policy: 'login', rate: 3, swing: 0.3, everyMs: 20_000, clients: 24 },
  { policy: 'search', rate: 40, swing: 0.7, everyMs: 18_000, clients: 7 },
  { policy: 'uploads', rate: 6, swing: 0.9, everyMs: 9000, clients: 5, cost: 3 },
  { policy: 'webhooks', rate: 24, swing: 0.2, everyMs: 25_000, clients: 3 },
  { policy: 'freePlan', rate: 14, swing: 0.5, everyMs: 12_000, clients: 9 },
];
const NAMES = [
  'acme',
  'globex',
  'initech',
  'umbrella',
  'hooli',
  'stark',
  'wayne',
  'wonka',
  'tyrell',
];

/** Yields seeded random numbers, so that every run sends the same calls. */
function* randomNumbers(seed) {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    yield state / 2 ** 32;
  }
}
const numbers = randomNumbers(7);
const random = () => numbers.next().value;

/** Returns a random client. A few clients make most of the calls. */
function client(clients) {
  const at = Math.floor(clients * random() ** 2.5);
  return at < NAMES.length ? `org:${NAMES[at]}` : `ip:192.0.2.${10 + at}`;
}

function callsAt(timeMs) {
  return LOADS.flatMap(({ policy, rate, swing, everyMs, clients, cost = 1 }) => {
    const wave = 1 + swing * Math.sin((2 * Math.PI * timeMs) / everyMs);
    const wanted = (rate * wave * TURN_MS) / 1000;
    const count = Math.floor(wanted) + (random() < wanted % 1 ? 1 : 0);
    return Array.from({ length: count }, () => ({ policy, key: client(clients), cost }));
  });
}

async function post(url, body) {
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  await response.arrayBuffer();
}

async function sendCalls(url, signal) {
  for (let timeMs = 0; !signal.aborted; timeMs += TURN_MS) {
    const checks = callsAt(timeMs);
    if (checks.length > 0) await post(`${url}/v1/check`, { checks });
    await sleep(TURN_MS);
  }
}

/** Starts `sluice serve` with the policies above and resolves when it listens. */
async function serve(config) {
  const args = ['packages/cli/bin/sluice.mjs', 'serve', '--listen', '127.0.0.1:0'];
  const child = spawn(process.execPath, [...args, '--config', config], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let printed = '';
  for await (const text of child.stdout.setEncoding('utf8')) {
    printed += text;
    const [, url] = /"url":"([^"]+)"/.exec(printed) ?? [];
    if (url !== undefined) return { url, child };
  }
  throw new Error(`The service did not start: ${printed}`);
}

/** A screenshot is taken when the element `ready` is visible, and ends below the element `last`. */
const PICTURES = [
  { name: 'overview', hash: '#/overview?range=1', ready: '.plot canvas', last: '.heat-legend' },
  {
    name: 'key',
    hash: '#/key/checkout/org%3Aacme',
    ready: '.window svg',
    last: 'section:has(.window)',
  },
  { name: 'lab', hash: '#/lab', ready: '.lane-list svg', last: '.lab-legend' },
];
const SCHEMES = ['light', 'dark'];
const WIDTH = 1280;
const EDGE = 12;

async function open(browser, url, hash, colorScheme) {
  const viewport = { width: WIDTH, height: 1000 };
  const context = await browser.newContext({ viewport, colorScheme });
  const page = await context.newPage();
  await page.goto(`${url}/dashboard/${hash}`);
  return page;
}

async function take(page, { name, ready, last }, colorScheme) {
  await page.locator(ready).first().waitFor();
  await page.locator('.connection.live').waitFor();
  const { y, height } = await page.locator(last).first().boundingBox();
  const clip = { x: 0, y: 0, width: WIDTH, height: Math.ceil(y + height + EDGE) };
  const path = join(folder, `dashboard-${name}-${colorScheme}.png`);
  await page.screenshot({ path, clip, fullPage: true });
  const { size } = statSync(path);
  console.log(`${path}  ${Math.ceil(size / 1024)} KB`);
  if (size > MAX_BYTES) throw new Error(`Expected at most ${MAX_BYTES} bytes, got ${size}`);
}

const scratch = mkdtempSync(join(tmpdir(), 'sluice-screenshots-'));
const config = join(scratch, 'sluice.yaml');
writeFileSync(config, CONFIG);
mkdirSync(folder, { recursive: true });
const { url, child } = await serve(config);
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
const over = new AbortController();
let traffic = Promise.resolve();
try {
  const override = { policy: 'checkout', key: 'org:globex', limit: 60, reason: 'launch week' };
  await post(`${url}/v1/overrides`, override);
  const shots = PICTURES.flatMap((picture) => SCHEMES.map((scheme) => ({ picture, scheme })));
  // Open the pages before sending calls: opening them takes so much CPU time that calls would be
  // delayed.
  const pages = await Promise.all(
    shots.map(({ picture: { hash }, scheme }) => open(browser, url, hash, scheme)),
  );
  traffic = sendCalls(url, over.signal);
  await Promise.race([sleep(TRAFFIC_MS), traffic]);
  for (const [at, { picture, scheme }] of shots.entries()) await take(pages[at], picture, scheme);
} finally {
  over.abort();
  await traffic.catch(() => {});
  await browser.close();
  child.kill();
  rmSync(scratch, { recursive: true });
}
