/** All views: each page in use, empty, and with an open dialog. */
import type { Page } from 'playwright-core';
import {
  concurrencyPolicy,
  policy,
  type Running,
  startRunning,
} from '../../../server/test/running.ts';
import { Load, POLICIES } from './load.ts';
import { go, isLive } from './stage.ts';

export const TOKEN = 'correct-horse-battery-staple';

/** Reversed text, a line break and right-to-left letters. */
const ODD_KEY = 'user\u202e:drowssap\n \u05d0\u05d1\u05d2';

const LONG_NAME = 'requests-of-the-mobile-application-to-the-public-interface-by-country';
const LONG_KEY = `tenant:${'0123456789abcdef'.repeat(12)}`;

/** Services with traffic, without traffic, without policies and with an admin token. */
export interface Scenes {
  readonly busy: Running;
  readonly quiet: Running;
  readonly bare: Running;
  readonly closed: Running;
  end(): Promise<void>;
}

export async function startScenes(): Promise<Scenes> {
  const settings = { grafanaUrl: 'https://grafana.example/d/sluice' };
  const policies = [
    ...POLICIES,
    policy('logins', 3, '1m', { block: { for: '15m', factor: 2 } }),
    concurrencyPolicy('jobs', 20, '1h'),
    policy(LONG_NAME, 10, '1m'),
  ];
  const busy = await startRunning({ config: { policies }, settings });
  const quiet = await startRunning({ config: { policies: [policy('perMinute', 5, '1m')] } });
  const bare = await startRunning();
  const closed = await startRunning({ settings: { adminToken: TOKEN } });
  const load = new Load(busy);
  const expiresInMs = 3_600_000;
  const overrides = [
    { key: 'user:1', limit: 500, reason: 'a migration that takes a while, agreed with support' },
    { key: 'team:*', limit: 50, expiresInMs },
    { key: LONG_KEY, limit: 1 },
    { key: ODD_KEY, limit: 2, reason: ODD_KEY },
  ];
  for (const each of overrides) await busy.post('/v1/overrides', { policy: 'perMinute', ...each });
  for (let call = 0; call < 8; call++) {
    await busy.post('/v1/check', { policy: 'perMinute', key: LONG_KEY });
    await busy.post('/v1/check', { policy: 'perMinute', key: ODD_KEY });
  }
  for (let call = 0; call < 4; call++) {
    await busy.post('/v1/check', { policy: 'logins', key: 'account:ada' });
    const label = call === 0 ? ODD_KEY : `export ${call} of ${LONG_KEY.slice(0, 40)}`;
    await busy.post('/v1/check', { policy: 'jobs', key: 'tenant:7', label });
  }
  return {
    ...{ busy, quiet, bare, closed },
    end: async () => {
      await load.stop();
      await Promise.all([busy, quiet, bare, closed].map((each) => each.close()));
    },
  };
}

export interface View {
  readonly name: string;
  readonly of: 'busy' | 'quiet' | 'bare' | 'closed';
  readonly hash: string;
  /** Uses no colours that other views do not use. */
  readonly isAlike?: true;
  /** Waits for the content, or opens a dialog. */
  readonly ready: (page: Page) => Promise<unknown>;
}

const heading = (name: string) => (page: Page) =>
  page.getByRole('heading', { level: 1, name }).waitFor();

async function openDialog(page: Page, button: string): Promise<void> {
  await page.getByRole('button', { name: button }).first().click();
  await page.getByRole('dialog').waitFor();
}

const drawn = async (page: Page): Promise<void> => {
  await isLive(page);
  await page.locator('.plot canvas').first().waitFor();
};

export const VIEWS: readonly View[] = [
  { name: 'overview', of: 'busy', hash: '#/overview?range=1', ready: drawn },
  {
    ...{ name: 'overview-tables', isAlike: true, of: 'busy', hash: '#/overview?range=1&sort=name' },
    ready: async (page) => {
      await drawn(page);
      for (const summary of await page.locator('summary').all()) await summary.click();
      await page.getByRole('table', { name: /^Calls per second/ }).waitFor();
    },
  },
  {
    ...{ name: 'overview-day', isAlike: true, of: 'busy', hash: '#/overview?range=1440' },
    ready: async (page) => {
      await page.getByRole('img', { name: /^Calls per minute/ }).waitFor();
      await page.getByRole('table', { name: 'Policies' }).waitFor();
    },
  },
  {
    ...{ name: 'find', isAlike: true, of: 'busy', hash: '#/denials?policy=parts' },
    ready: async (page) => {
      const button = page.getByRole('button', { name: 'Find a key' });
      if (await button.isVisible()) await button.click();
      await page.getByLabel('Key to find').fill(ODD_KEY);
    },
  },
  {
    ...{
      name: 'key-odd',
      isAlike: true,
      of: 'busy',
      hash: `#/key/perMinute/${encodeURIComponent(ODD_KEY)}`,
    },
    ready: (page) => page.locator('.window svg').waitFor(),
  },
  {
    ...{ name: 'policy', of: 'busy', hash: '#/policy/perMinute?range=1' },
    ready: async (page) => {
      await drawn(page);
      await page.getByRole('table', { name: 'Top keys by denials' }).waitFor();
      await page.getByRole('table', { name: 'Overrides' }).waitFor();
    },
  },
  {
    ...{ name: 'policy-shadow', of: 'busy', hash: '#/policy/shadowed?range=1' },
    ready: (page) => page.getByText(/If enforced/).waitFor(),
  },
  {
    ...{ name: 'policy-override', of: 'busy', hash: '#/policy/parts' },
    ready: (page) => openDialog(page, 'Add override'),
  },
  {
    ...{ name: 'policy-enforce', isAlike: true, of: 'busy', hash: '#/policy/shadowed?range=10' },
    ready: (page) => openDialog(page, 'Enforce'),
  },
  ...['perMinute/user:1', 'perHour/user:2', 'perDay/greedy', 'perSecond/ada', 'parts/user:3'].map(
    (key): View => ({
      ...{ name: `key-${key.split('/')[0]}`, of: 'busy', hash: `#/key/${key}` },
      ready: (page) => page.locator('.window svg').waitFor(),
    }),
  ),
  {
    ...{ name: 'key-long', isAlike: true, of: 'busy', hash: `#/key/perMinute/${LONG_KEY}` },
    ready: (page) => page.locator('.window svg').waitFor(),
  },
  {
    ...{ name: 'key-blocked', of: 'busy', hash: '#/key/logins/account:ada' },
    ready: (page) => page.getByText('Every call is denied').waitFor(),
  },
  {
    ...{ name: 'key-holds', of: 'busy', hash: '#/key/jobs/tenant:7' },
    ready: (page) => page.getByRole('table', { name: /^Holds/ }).waitFor(),
  },
  {
    ...{ name: 'policy-concurrency', isAlike: true, of: 'busy', hash: '#/policy/jobs?range=1' },
    ready: (page) => page.getByText('20 at the same time').first().waitFor(),
  },
  {
    ...{ name: 'key-reset', isAlike: true, of: 'busy', hash: `#/key/perMinute/user:4` },
    ready: (page) => openDialog(page, 'Reset'),
  },
  {
    ...{ name: 'denials', of: 'busy', hash: '#/denials?policy=perMinute' },
    ready: (page) => page.getByRole('table', { name: /^Denials/ }).waitFor(),
  },
  {
    ...{ name: 'lab', of: 'busy', hash: '#/lab' },
    ready: (page) => page.getByRole('img', { name: /^fixed-window:/ }).waitFor(),
  },
  {
    ...{
      name: 'lab-typed',
      isAlike: true,
      of: 'busy',
      hash: '#/lab?traffic=typed&times=0*50_2000.3&limit=x',
    },
    ready: (page) => page.getByLabel('Calls: time in ms, cost').waitFor(),
  },
  { name: 'overview-quiet', of: 'quiet', hash: '#/overview', ready: drawn },
  { name: 'policy-quiet', isAlike: true, of: 'quiet', hash: '#/policy/perMinute', ready: drawn },
  {
    ...{ name: 'key-new', of: 'quiet', hash: '#/key/perMinute/ada' },
    ready: (page) => page.getByText(/^curl -s/).waitFor(),
  },
  {
    name: 'denials-quiet',
    isAlike: true,
    of: 'quiet',
    hash: '#/denials',
    ready: heading('Recent denials'),
  },
  {
    name: 'policy-unknown',
    isAlike: true,
    of: 'quiet',
    hash: '#/policy/gone',
    ready: heading('Unknown policy'),
  },
  { name: 'overview-bare', isAlike: true, of: 'bare', hash: '#/overview', ready: drawn },
  {
    ...{ name: 'sign-in', of: 'closed', hash: '#/overview' },
    ready: (page) => page.getByLabel('Admin token').waitFor(),
  },
  {
    ...{ name: 'lost', of: 'busy', hash: '#/overview' },
    ready: async (page) => {
      await drawn(page);
      await page.route('**/v1/**', (route) => route.abort());
      // Another filter reopens the stream.
      await go(page, '#/denials?key=x');
      await page.locator('.connection.lost').waitFor();
      await go(page, '#/overview?range=1');
      await page.getByText(/Data as of/).waitFor();
    },
  },
];

/** Navigates a page to a view. */
export async function show(page: Page, scenes: Scenes, view: View): Promise<void> {
  const base = `${scenes[view.of].url}/dashboard/`;
  if (page.url().startsWith(base)) {
    await page.keyboard.press('Escape');
    await go(page, view.hash);
  } else await page.goto(base + view.hash);
  await view.ready(page);
}
