/** Content security: hostile keys stay text, and the page loads nothing from other hosts. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { policy, type Running, startRunning } from '../../../server/test/running.ts';
import { visible } from '../../src/view/format.ts';
import { Load } from './load.ts';
import { eventually, go, isLive, noticeOf, submitDialog, useBrowser, visit } from './stage.ts';

const HOSTILE = [
  '<img src=x onerror=alert(1)>',
  '"><script>alert(2)</script>',
  "'onmouseover='alert(3)",
  'javascript:alert(4)',
  '{{constructor.constructor("alert(5)")()}}',
  '</title></code><svg/onload=alert(7)>',
  '../../etc/passwd?a=b#c/d',
  '..',
  '‮drowssap',
  'a\u0000b\nc\td',
];
/** In the short form, keys whose page or dialogs are tested one by one. */
const isFull = process.env.SLUICE_CAMPAIGN === 'full';
const NAME = 'policy<b>&amp;"\'';

const browser = useBrowser();
let running: Running;
let load: Load;
let page: Page;
let problems: string[];
beforeAll(async () => {
  const config = {
    policies: [policy('few', 1, '1h'), policy('shadowed', 1, '1h', { shadow: true })],
  };
  running = await startRunning({ config });
  load = new Load(running, (turn) => {
    const key = HOSTILE[turn % HOSTILE.length];
    return [
      { policy: 'few', key },
      { policy: 'shadowed', key },
    ];
  });
  for (const key of HOSTILE) {
    await running.post('/v1/overrides', { policy: 'few', key, limit: 1, reason: key });
  }
  ({ page, problems } = await visit(browser(), running.url));
  await isLive(page);
});
afterAll(async () => {
  await load.stop();
  await running.close();
});

const keyAddress = (key: string): string => `#/key/few/${encodeURIComponent(key)}`;

/** Elements and attributes that no template contains. */
const planted = (): Promise<string[]> =>
  page.evaluate(() => {
    const isOurs = (element: Element): boolean =>
      element.tagName !== 'SCRIPT' || (element as HTMLScriptElement).src !== '';
    const strange = [...document.querySelectorAll('script, img, iframe, object, embed, base')];
    const marked = [...document.querySelectorAll('*')].filter((element) =>
      [...element.attributes].some(
        ({ name, value }) =>
          name.startsWith('on') || (/href|src|action/.test(name) && /^\s*javascript:/i.test(value)),
      ),
    );
    return [...strange.filter((each) => !isOurs(each)), ...strange.slice(1), ...marked].map(
      ({ outerHTML }) => outerHTML,
    );
  });

const texts = (): Promise<string> => page.evaluate(() => document.body.textContent!);

describe('keys with markup', () => {
  test('top keys and overrides show a key with markup as text', async () => {
    await go(page, '#/policy/few');
    for (const key of HOSTILE) {
      await eventually(
        async () =>
          (await page.locator('.key').allTextContents()).filter((each) => each === visible(key))
            .length,
      ).toBeGreaterThan(1);
    }
    expect(await planted()).toEqual([]);
  });

  test('the top keys of a shadow policy show a key with markup as text', async () => {
    await go(page, '#/policy/shadowed');
    await eventually(texts).toContain(HOSTILE[0]);
    expect(await planted()).toEqual([]);
  });

  test('recent denials show a key with markup as text', async () => {
    await go(page, '#/denials');
    for (const key of HOSTILE) await eventually(texts).toContain(visible(key));
    expect(await planted()).toEqual([]);
  });

  test('the filter of recent denials shows a key with markup as text', async () => {
    for (const key of HOSTILE.slice(0, 3)) {
      await go(page, `#/denials?${new URLSearchParams({ policy: 'few', key })}`);
      await eventually(() =>
        page.getByRole('link', { name: key, exact: true }).count(),
      ).toBeGreaterThan(0);
      expect(await page.getByLabel('Key', { exact: true }).inputValue()).toBe(key);
    }
    await go(page, `#/denials?${new URLSearchParams({ policy: NAME })}`);
    await page.getByText(`The policy ${NAME} no longer exists.`).waitFor();
    expect(await page.getByLabel('Policy', { exact: true }).inputValue()).toBe(NAME);
    expect(await planted()).toEqual([]);
  });

  test.each(HOSTILE)('the page of the key %j shows its markup as text', async (key) => {
    await go(page, keyAddress(key));
    await eventually(() => page.locator('h1').textContent()).toBe(visible(key));
    await page.getByText(/of 1$/).first().waitFor();
    await eventually(() => page.title()).toContain('· few · Sluice');
    expect(await planted()).toEqual([]);
  });

  test.each(HOSTILE.slice(0, isFull ? 3 : 1))(
    'dialogs and notices show the markup of the key %j as text',
    async (key) => {
      await go(page, keyAddress(key));
      await eventually(() => page.locator('h1').textContent()).toBe(key);
      await page.getByRole('button', { name: 'Reset' }).click();
      await submitDialog(page, 'Reset', async (dialog) => {
        expect(await dialog.textContent()).toContain(key);
        expect(await planted()).toEqual([]);
      });
      await eventually(() => noticeOf(page).textContent()).toContain(key);
      await page.getByRole('button', { name: 'Edit override' }).click();
      await submitDialog(page, 'Save', async (dialog) => {
        expect(await dialog.textContent()).toContain(key);
        expect(await dialog.getByLabel('Reason').inputValue()).toBe(key);
        await dialog.getByLabel('Limit').fill('2');
      });
      await eventually(() => noticeOf(page).textContent()).toContain(key);
      await page.getByRole('button', { name: 'Remove override' }).click();
      await submitDialog(page, 'Remove', async (dialog) => {
        expect(await dialog.textContent()).toContain(key);
      });
      await eventually(() => noticeOf(page).textContent()).toContain(key);
      expect(await planted()).toEqual([]);
    },
  );

  test('the curl command quotes a key with markup as one shell word', async () => {
    const key = `it's <b> $(id) \`id\``;
    await go(page, keyAddress(key));
    await eventually(() => page.locator('h1').textContent()).toBe(key);
    const command = await page.getByText(/^curl -s .*it/).textContent();
    const [, quoted] = /-d (.*)$/.exec(command!)!;
    const word = quoted.replaceAll(`'\\''`, '\u0000').replaceAll("'", '').replaceAll('\u0000', "'");
    expect(JSON.parse(word)).toEqual({ policy: 'few', key });
  });

  test.each(['#/policy/', '#/key/few/', '#/key/'])(
    'an unknown name with markup after %s in the address is shown as text',
    async (start) => {
      for (const name of [HOSTILE[0], NAME]) {
        await go(page, start + encodeURIComponent(name));
        await eventually(texts).toContain(name);
        expect(await planted()).toEqual([]);
      }
    },
  );

  test('the browser reports no errors for keys with markup', () => {
    expect(problems.filter((problem) => !problem.includes('404 (Not Found)'))).toEqual([]);
  });
});

describe('the Content-Security-Policy', () => {
  test('the Content-Security-Policy allows only resources of the service', async () => {
    const { headers } = await running.get('/dashboard/');
    const csp = headers.get('content-security-policy')!;
    const directives = new Map(
      csp.split('; ').map((each) => [each.split(' ')[0], each.split(' ').slice(1).join(' ')]),
    );
    expect(Object.fromEntries(directives)).toMatchObject({
      'default-src': "'none'",
      'script-src': "'self'",
      'style-src': "'self'",
      'connect-src': "'self'",
      'frame-ancestors': "'none'",
      'base-uri': "'none'",
      'form-action': "'none'",
      'require-trusted-types-for': "'script'",
    });
    expect(csp).not.toMatch(/unsafe|\*|https?:|blob:/);
  });

  test('the built page has no inline scripts or styles', async () => {
    const { text } = await running.get('/dashboard/');
    expect(text).not.toMatch(/<style|style=|\son\w+=|<script(?![^>]*\ssrc=)/);
  });

  test('the Content-Security-Policy blocks injected content', async () => {
    const { page: other, problems: blocked } = await visit(browser(), running.url);
    await isLive(other);
    await other.evaluate(() => {
      const style = document.createElement('style');
      style.textContent = 'body { color: red }';
      document.head.append(style);
      const image = new Image();
      image.src = 'https://elsewhere.example/x.png';
      document.body.append(image);
    });
    await eventually(() => blocked.filter((each) => each.startsWith('violated:')).sort()).toEqual([
      expect.stringContaining('img-src'),
      expect.stringContaining('style-src-elem'),
    ]);
    const results = await other.evaluate(() =>
      [
        () => document.body.setAttribute('onclick', 'alert(1)'),
        () => document.body.insertAdjacentHTML('beforeend', '<b>'),
        () => {
          document.body.innerHTML = '<p>';
        },
      ].map((attempt) => {
        try {
          attempt();
          return 'accepted';
        } catch (error) {
          return (error as Error).name;
        }
      }),
    );
    expect(results).toEqual(['TypeError', 'TypeError', 'TypeError']);
    expect(blocked.filter((each) => each.startsWith('popped up'))).toEqual([]);
    await other.context().close();
  });

  test('no page violates the CSP, contacts other hosts or stores more than the theme', async () => {
    const { page: own, problems: reported } = await visit(browser(), running.url);
    await isLive(own);
    for (const hash of ['#/overview', '#/policy/few', '#/key/few/..', '#/denials', '#/lab']) {
      await go(own, hash);
      await own.locator('.card').first().waitFor();
      for (const summary of await own.locator('summary').all()) await summary.click();
      for (const theme of isFull || hash === '#/overview' ? ['light', 'dark', 'auto'] : []) {
        await own.locator('button.theme').click();
        await own.getByRole('button', { name: `Theme: ${theme}` }).waitFor();
      }
    }
    expect(reported).toEqual([]);
    const stored = await own.evaluate(() => [
      { ...localStorage },
      { ...sessionStorage },
      document.cookie,
    ]);
    expect(stored).toEqual([{ 'sluice.theme': 'auto' }, {}, '']);
    await own.context().close();
  });
});
