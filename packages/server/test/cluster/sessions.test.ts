/** Sessions and sign-outs apply to all workers. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { cookieIn, sendRequest } from '../http-api/plain-request.ts';
import { policy } from '../running.ts';
import { RunningGroup } from './running-group.ts';

const TOKEN = 'correct horse battery staple';
const soon = { timeout: 20_000, interval: 50 };
/** Enough for each worker to have at least one. */
const CONNECTIONS = 12;

let group: RunningGroup;
beforeAll(async () => {
  const config = { policies: [policy('p', 10, '1h')] };
  group = await RunningGroup.start({ config, settings: { workers: 2, adminToken: TOKEN } });
}, 60_000);
afterAll(() => group?.stop(), 60_000);

const request = (method: string, path: string, headers = {}, body?: unknown) =>
  sendRequest(group.url + path, method, { ...headers, 'sec-fetch-site': 'same-origin' }, body);

const signIn = async (): Promise<string> =>
  cookieIn(await request('POST', '/v1/session', {}, { token: TOKEN }));

const sendBearer = (token: string, localAddress: string) => {
  const headers = { authorization: `Bearer ${token}` };
  return sendRequest(`${group.url}/v1/policies`, 'GET', headers, undefined, { localAddress });
};

const sendSignIn = (token: string, localAddress: string) =>
  sendRequest(`${group.url}/v1/session`, 'POST', {}, { token }, { localAddress });

/** Resolves to the distinct statuses of requests with a cookie, over all workers. */
async function statuses(cookie: string): Promise<readonly number[]> {
  const requests = Array.from({ length: CONNECTIONS }, () =>
    request('GET', '/v1/policies', { cookie }),
  );
  return [...new Set((await Promise.all(requests)).map(({ status }) => status))];
}

const auditLines = (action: string): unknown[] =>
  group.log.filter((line) => (line.audit as { action?: string })?.action === action);

describe('sessions with several workers', () => {
  test('a session is valid at all workers until sign-out', async () => {
    const [cookie, other] = [await signIn(), await signIn()];
    expect([await statuses(cookie), await statuses(other)]).toEqual([[200], [200]]);
    const signedOut = await request('DELETE', '/v1/session', { cookie });
    expect(signedOut.json).toEqual({ required: true, signedIn: false });
    expect([await statuses(cookie), await statuses(other)]).toEqual([[401], [200]]);
    await vi.waitUntil(() => auditLines('sign-out').length === 1, soon);
  });

  test.each([
    ['bearer tokens', '127.0.0.21', (token: string) => sendBearer(token, '127.0.0.21')],
    ['sign-ins', '127.0.0.22', (token: string) => sendSignIn(token, '127.0.0.22')],
  ])('wrong %s of an address are counted over all workers, and logged', async (_, by, attempt) => {
    const statuses: number[] = [];
    for (let count = 0; count < 12; count++) statuses.push((await attempt('wrong')).status);
    expect(statuses).toEqual([...Array(10).fill(401), 429, 429]);
    for (let count = 0; count < 4; count++) expect((await attempt(TOKEN)).status).toBe(429);
    const failed = () =>
      group.log.filter((line) => {
        const audit = line.audit as { by?: string; ok?: boolean } | undefined;
        return audit?.by === by && audit.ok === false;
      });
    await vi.waitUntil(() => failed().length >= 10, soon);
  });

  test('a new worker rejects sessions that have ended', { timeout: 60_000 }, async () => {
    const [cookie, other] = [await signIn(), await signIn()];
    await request('DELETE', '/v1/session', { cookie });
    const [first, second] = await group.pids();
    process.kill(first, 'SIGKILL');
    await vi.waitUntil(() => group.log.some(({ msg }) => msg === 'worker replaced'), soon);
    expect(await group.pids()).not.toContain(first);
    expect(await group.pids()).toContain(second);
    expect([await statuses(cookie), await statuses(other)]).toEqual([[401], [200]]);
    // The new worker passes the ended sessions on to the next one.
    process.kill(second, 'SIGKILL');
    const replaced = () => group.log.filter(({ msg }) => msg === 'worker replaced').length;
    await vi.waitUntil(() => replaced() === 2, soon);
    expect([await statuses(cookie), await statuses(other)]).toEqual([[401], [200]]);
  });
});
