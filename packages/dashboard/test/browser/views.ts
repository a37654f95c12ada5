/** Everything that can be looked at: each page as it is in use, empty, and with a question open. */
import type { Page } from 'playwright-core';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { Load, POLICIES } from './load.ts';
import { go, isLive } from './stage.ts';

export const TOKEN = 'correct-horse-battery-staple';

const LONG_KEY = `tenant:${'0123456789abcdef'.repeat(12)}`;

/** Services with something to show, with nothing, and with a token that is needed. */
export interface Scenes {
  readonly busy: Running;
  readonly quiet: Running;
  readonly bare: Running;
  readonly closed: Running;
  end(): Promise<void>;
}

export async function startScenes(): Promise<Scenes> {
  const busy = await startRunning({ config: { policies: POLICIES } });
  const quiet = await startRunning({ config: { policies: [policy('perMinute', 5, '1m')] } });
  const bare = await startRunning();
  const closed = await startRunning({ settings: { adminToken: TOKEN } });
  const load = new Load(busy);
  const expiresInMs = 3_600_000;
  const overrides = [
    { key: 'user:1', limit: 500, reason: 'a migration that takes a while, agreed with support' },
    { key: 'team:*', limit: 50, expiresInMs },
    { key: LONG_KEY, limit: 1 },
  ];
  for (const each of overrides) await busy.post('/v1/overrides', { policy: 'perMinute', ...each });
  for (let call = 0; call < 8; call++) {
    await busy.post('/v1/check', { policy: 'perMinute', key: LONG_KEY });
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
  /** Nothing in it that is not elsewhere in the same colours. */
  readonly isAlike?: true;
  /** What has to be there before it is looked at, or to be done. */
  readonly ready: (page: Page) => Promise<unknown>;
}

const heading = (name: string) => (page: Page) =>
  page.getByRole('heading', { level: 1, name }).waitFor();

async function ask(page: Page, button: string): Promise<void> {
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
      await page.getByRole('table', { name: /^Calls a second/ }).waitFor();
    },
  },
  {
    ...{ name: 'policy', of: 'busy', hash: '#/policy/perMinute?range=1' },
    ready: async (page) => {
      await drawn(page);
      await page.getByRole('table', { name: 'Most denied' }).waitFor();
      await page.getByRole('table', { name: 'Overrides' }).waitFor();
    },
  },
  {
    ...{ name: 'policy-shadow', of: 'busy', hash: '#/policy/shadowed?range=1' },
    ready: (page) => page.getByText(/If this were on/).waitFor(),
  },
  {
    ...{ name: 'policy-override', of: 'busy', hash: '#/policy/parts' },
    ready: (page) => ask(page, 'Add an override'),
  },
  {
    ...{ name: 'policy-enforce', isAlike: true, of: 'busy', hash: '#/policy/shadowed?range=10' },
    ready: (page) => ask(page, 'Enforce it'),
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
    ...{ name: 'key-reset', isAlike: true, of: 'busy', hash: `#/key/perMinute/user:4` },
    ready: (page) => ask(page, 'Reset'),
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
    ready: heading('Live denials'),
  },
  {
    name: 'policy-unknown',
    isAlike: true,
    of: 'quiet',
    hash: '#/policy/gone',
    ready: heading('There is no'),
  },
  { name: 'overview-bare', isAlike: true, of: 'bare', hash: '#/overview', ready: drawn },
  {
    ...{ name: 'sign-in', of: 'closed', hash: '#/overview' },
    ready: (page) => page.getByLabel('Admin token').waitFor(),
  },
  {
    ...{ name: 'lost', of: 'quiet', hash: '#/overview' },
    ready: async (page) => {
      await page.route('**/v1/**', (route) => route.abort());
      await page.reload();
      await page.locator('.connection.lost').waitFor();
    },
  },
];

/** Shows a view in a page that may be at another one. */
export async function show(page: Page, scenes: Scenes, view: View): Promise<void> {
  const base = `${scenes[view.of].url}/dashboard/`;
  if (page.url().startsWith(base)) {
    await page.keyboard.press('Escape');
    await go(page, view.hash);
  } else await page.goto(base + view.hash);
  await view.ready(page);
}
