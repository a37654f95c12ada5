import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { installedFiles, MAX_BYTES, readDashboardFiles } from '../../src/dashboard/files.ts';
import { dashboardRoutes } from '../../src/dashboard/routes.ts';
import { AccessControl } from '../../src/http/access.ts';
import { Router } from '../../src/http/router.ts';
import { HttpServer } from '../../src/http/server.ts';
import { exchange, headOf } from '../http/raw.ts';
import { settingsOf, startRunning } from '../running.ts';

const PAGE = `<!doctype html><title>Sluice</title>${'<p>page</p>'.repeat(100)}`;
const SCRIPT = `console.log(${JSON.stringify('x'.repeat(5000))})`;
const SECRET = 'secret file content';

const folder = mkdtempSync(join(tmpdir(), 'sluice-dashboard-'));
const dist = join(folder, 'dist');

let server: HttpServer;
let port: number;

async function serve(files: Parameters<typeof dashboardRoutes>[2]) {
  const router = new Router();
  const log = pino({ level: 'silent' });
  dashboardRoutes(router, log, files);
  const settings = settingsOf();
  const access = new AccessControl(settings, { bearer: async () => {} });
  const http = new HttpServer(router, access, undefined, log);
  return { http, port: (await http.listen(settings.listen)).port };
}

beforeAll(async () => {
  mkdirSync(join(dist, 'assets'), { recursive: true });
  writeFileSync(join(folder, 'secret.js'), SECRET);
  writeFileSync(join(dist, 'index.html'), PAGE);
  writeFileSync(join(dist, 'other.html'), SECRET);
  writeFileSync(join(dist, 'assets', 'index-Ab12.js'), SCRIPT);
  writeFileSync(join(dist, 'assets', 'index-Ab12.css'), 'p{}');
  writeFileSync(join(dist, 'assets', 'icon-Ab12.svg'), '<svg/>');
  writeFileSync(join(dist, 'assets', 'index-Ab12.js.map'), SECRET);
  ({ http: server, port } = await serve(readDashboardFiles(dist)));
});
afterAll(async () => {
  await server.close(100);
  rmSync(folder, { recursive: true });
});

/** Sends raw bytes: a client would decode bodies and follow redirects. */
async function get(path: string, ...fields: readonly string[]) {
  return request('GET', path, ...fields);
}

async function request(method: string, path: string, ...fields: readonly string[]) {
  const head = headOf(method, path, ...fields, 'Connection: close');
  const { status, text } = await exchange(port, [head]);
  const [top, ...rest] = text.split('\r\n\r\n');
  const headers = new Map(
    top.split('\r\n').map((line) => {
      const [name, ...value] = line.split(': ');
      return [name.toLowerCase(), value.join(': ')] as const;
    }),
  );
  return { status, headers, body: Buffer.from(rest.join('\r\n\r\n'), 'latin1') };
}

const ASSET = '/dashboard/assets/index-Ab12.js';

describe('the dashboard', () => {
  test('the dashboard is served with the content types of its files', async () => {
    const types: readonly [string, string, string][] = [
      ['/dashboard/', 'text/html; charset=utf-8', PAGE],
      [ASSET, 'text/javascript; charset=utf-8', SCRIPT],
      ['/dashboard/assets/index-Ab12.css', 'text/css; charset=utf-8', 'p{}'],
      ['/dashboard/assets/icon-Ab12.svg', 'image/svg+xml', '<svg/>'],
    ];
    for (const [path, type, content] of types) {
      const { status, headers, body } = await get(path);
      expect([path, status, headers.get('content-type')]).toEqual([path, 200, type]);
      expect(body.toString()).toBe(content);
      expect(Number(headers.get('content-length'))).toBe(content.length);
    }
  });

  test('dashboard responses have a strict content security policy and forbid frames', async () => {
    for (const path of ['/dashboard/', ASSET, '/dashboard', '/dashboard/assets/none.js']) {
      const { headers } = await get(path);
      expect(headers.get('content-security-policy')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
          "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
          "require-trusted-types-for 'script'; trusted-types lit-html",
      );
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('x-frame-options')).toBe('DENY');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
      expect(headers.get('cross-origin-opener-policy')).toBe('same-origin');
      expect(headers.get('cross-origin-resource-policy')).toBe('same-origin');
    }
  });

  test('dashboard files are compressed with gzip if the client accepts gzip', async () => {
    for (const accepted of ['gzip', 'br, GZIP;q=0.5', '*', 'deflate;q=1, gzip ; q=0.1']) {
      const { headers, body } = await get('/dashboard/', `Accept-Encoding: ${accepted}`);
      expect([headers.get('content-encoding'), headers.get('vary')]).toEqual([
        'gzip',
        'accept-encoding',
      ]);
      expect(body.length).toBe(Number(headers.get('content-length')));
      expect(body.length).toBeLessThan(PAGE.length);
      expect(gunzipSync(body).toString()).toBe(PAGE);
    }
    for (const accepted of ['identity', 'br', 'gzip;q=0', '*;q=0', 'gzip;q=x', 'x-gzipped']) {
      const { headers, body } = await get('/dashboard/', `Accept-Encoding: ${accepted}`);
      expect([headers.get('content-encoding'), headers.get('vary')]).toEqual([
        undefined,
        'accept-encoding',
      ]);
      expect(body.toString()).toBe(PAGE);
    }
    // Compression would make this file larger.
    const css = await get('/dashboard/assets/index-Ab12.css', 'Accept-Encoding: gzip');
    expect([css.headers.get('content-encoding'), css.body.toString()]).toEqual([undefined, 'p{}']);
  });

  test('the dashboard page must be revalidated, and its assets are cached forever', async () => {
    expect((await get('/dashboard/')).headers.get('cache-control')).toBe('no-cache');
    expect((await get(ASSET)).headers.get('cache-control')).toBe(
      'public, max-age=31536000, immutable',
    );
  });

  test('a request for a dashboard file with the current ETag gets 304', async () => {
    for (const path of ['/dashboard/', ASSET]) {
      const plain = (await get(path)).headers.get('etag')!;
      const packed = (await get(path, 'Accept-Encoding: gzip')).headers.get('etag')!;
      expect(plain).toMatch(/^"[\w-]{22}"$/);
      expect(packed).not.toBe(plain);
      for (const known of [plain, `W/${plain}`, `"other", ${plain}`, '*']) {
        const { status, headers, body } = await get(path, `If-None-Match: ${known}`);
        expect([status, headers.get('etag'), body.length]).toEqual([304, plain, 0]);
        expect(headers.get('cache-control')).toBeDefined();
        expect(headers.get('content-security-policy')).toBeDefined();
      }
      for (const known of [packed, '"other"', plain.slice(1, -1), '']) {
        expect((await get(path, `If-None-Match: ${known}`)).status).toBe(200);
      }
    }
  });

  test('dashboard files respond to HEAD without a body and reject other methods', async () => {
    const { status, headers, body } = await request('HEAD', '/dashboard/');
    expect([status, body.length]).toEqual([200, 0]);
    expect(Number(headers.get('content-length'))).toBe(PAGE.length);
    expect((await request('POST', '/dashboard/', 'Content-Length: 0')).status).toBe(405);
    expect((await request('DELETE', ASSET)).status).toBe(405);
  });

  test('no path serves a file other than the dashboard page and its assets', async () => {
    const paths = [
      ...['/dashboard/assets/', '/dashboard/assets/none.js', '/dashboard/other.html'],
      ...['/dashboard/assets/index-Ab12.js.map', '/dashboard/index.html/', '/dashboard/assets'],
      ...['/dashboard/assets/../other.html', '/dashboard/assets/../../secret.js'],
      ...['/dashboard/assets/%2e%2e/other.html', '/dashboard/assets/..%2fother.html'],
      ...['/dashboard/assets/..%5c..%5csecret.js', '/dashboard/assets/..\\other.html'],
      ...['/dashboard/assets//index-Ab12.js', '/dashboard/assets/./index-Ab12.js'],
      ...['/dashboard/assets/index-Ab12.js%00', '/dashboard/assets/index-Ab12%2ejs'],
      ...[`/dashboard/assets/${encodeURIComponent(join(folder, 'secret.js'))}`],
      ...['/dashboard/assets/__proto__', '/dashboard/assets/constructor', '//dashboard/'],
      ...['/dashboard/assets/%ff', '/dashboard/..', '/dashboard/../secret.js', '/Dashboard/'],
    ];
    for (const path of paths) {
      const { status, body } = await get(path);
      expect([path, status]).toEqual([path, 404]);
      expect(body.toString()).not.toContain(SECRET);
    }
  });

  test('GET / redirects browsers, and lists entry points for other clients', async () => {
    const { status, headers } = await get('/', 'Accept: text/html,application/xhtml+xml,*/*;q=0.8');
    expect([status, headers.get('location')]).toEqual([302, '/dashboard/']);
    const bare = await get('/dashboard');
    expect([bare.status, bare.headers.get('location')]).toEqual([302, '/dashboard/']);
    for (const fields of [[], ['Accept: */*'], ['Accept: application/json']]) {
      const response = await get('/', ...fields);
      expect(response.status).toBe(200);
      expect(JSON.parse(response.body.toString())).toMatchObject({
        ...{ dashboard: '/dashboard/', openapi: '/v1/openapi.json' },
      });
    }
  });

  test('the dashboard accepts links from other sites, no other cross-site requests', async () => {
    const from = (site: string, mode: string, dest: string) => [
      ...[`Sec-Fetch-Site: ${site}`, `Sec-Fetch-Mode: ${mode}`, `Sec-Fetch-Dest: ${dest}`],
    ];
    for (const path of ['/dashboard/', '/dashboard', '/']) {
      for (const site of ['cross-site', 'same-site', 'same-origin', 'none']) {
        const { status } = await get(path, ...from(site, 'navigate', 'document'));
        expect([path, site, status < 400]).toEqual([path, site, true]);
      }
    }
    const foreign = [
      from('cross-site', 'no-cors', 'script'),
      from('cross-site', 'cors', 'empty'),
      from('cross-site', 'navigate', 'iframe'),
      from('cross-site', 'navigate', 'object'),
      ['Sec-Fetch-Site: cross-site'],
      ['Origin: https://evil.example'],
    ];
    for (const path of ['/dashboard/', ASSET]) {
      for (const fields of foreign) {
        expect([fields, (await get(path, ...fields)).status]).toEqual([fields, 403]);
      }
    }
    const own = [...from('same-origin', 'cors', 'script'), `Origin: http://127.0.0.1`];
    expect((await get(ASSET, ...own)).status).toBe(200);
  });
});

describe('a missing dashboard', () => {
  test('the response for a missing dashboard explains how to build it', async () => {
    const missing = await serve(new Error('no such folder /home/operator'));
    try {
      const url = `http://127.0.0.1:${missing.port}`;
      for (const path of ['/dashboard/', ASSET]) {
        const response = await fetch(url + path);
        const body = (await response.json()) as { code: string; detail: string };
        expect([response.status, body.code]).toEqual([404, 'ERR_NOT_FOUND']);
        expect(body.detail).toContain('npm run build');
        expect(body.detail).not.toContain('operator');
      }
      expect((await fetch(url)).status).toBe(200);
    } finally {
      await missing.http.close(100);
    }
  });

  test('readDashboardFiles rejects a folder without a page or with too many bytes', () => {
    expect(() => readDashboardFiles(join(folder, 'nowhere'))).toThrow(/ENOENT/);
    const large = join(folder, 'large');
    mkdirSync(join(large, 'assets'), { recursive: true });
    expect(() => readDashboardFiles(large)).toThrow(/ENOENT/);
    writeFileSync(join(large, 'index.html'), PAGE);
    expect(readDashboardFiles(large).size).toBe(1);
    writeFileSync(join(large, 'assets', 'a.js'), Buffer.alloc(MAX_BYTES));
    expect(() => readDashboardFiles(large)).toThrow(/Expected at most/);
  });
});

test('a service serves the installed dashboard without a token', async () => {
  const running = await startRunning({
    settings: { adminToken: 'a token of enough letters' },
  });
  const files = installedFiles();
  const { status, headers, text } = await running.get('/dashboard/');
  expect(status).toBe(files instanceof Error ? 404 : 200);
  expect(headers.get('content-security-policy')).toContain("default-src 'none'");
  for (const [, path] of text.matchAll(/(?:src|href)="(\/[^"]+)"/g)) {
    expect([path, (await running.get(path)).status]).toEqual([path, 200]);
  }
  await running.close();
});
