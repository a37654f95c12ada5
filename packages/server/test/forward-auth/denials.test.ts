import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { unavailableStore } from '../fallible-store.ts';
import { valueIn } from '../metric-value.ts';
import { policy, type Running, startRunning } from '../running.ts';
import { forwarded, limit, PATH, repeat, rule, statusesOf } from './forwarded.ts';

describe('forward-auth with an override below the cost', () => {
  let running: Running;
  beforeAll(async () => {
    const config = {
      policies: [policy('p', 10, '1m'), policy('s', 10, '1m', { shadow: true })],
      rules: [
        rule('/p', [limit('p', 'address', { cost: 5 })]),
        rule('/s', [limit('s', 'address', { cost: 5 }), limit('p')]),
        rule('/only', [limit('s', 'address', { cost: 5 })]),
      ],
      overrides: [
        { policy: 'p', key: 'address:192.0.2.9', limit: 2 },
        { policy: 's', key: 'address:192.0.2.9', limit: 2 },
      ],
    };
    running = await startRunning({ config });
  });
  afterAll(() => running.close());

  const overridden = { 'x-forwarded-for': '192.0.2.9' };

  it('a request whose cost exceeds the override is denied without Retry-After', async () => {
    const response = await running.get(PATH, forwarded('/p', overridden));
    expect([response.status, response.headers.get('retry-after')]).toEqual([429, null]);
    expect(response.json).toMatchObject({ status: 429, 'violated-policies': ['p'] });
    expect(response.json).not.toHaveProperty('retry-after-ms');
    const disguised = await running.get(`${PATH}?deny=403`, forwarded('/p', overridden));
    expect([disguised.status, disguised.headers.get('x-sluice-status')]).toEqual([403, '429']);
    expect((await running.get(PATH, forwarded('/p'))).status).toBe(200);
  });

  it('a permanent denial has RateLimit headers and is counted and listed', async () => {
    const count = async (policy: string, outcome: string): Promise<number> => {
      const { text } = await running.get('/metrics');
      return valueIn(text, 'sluice_decisions_total', { policy, outcome }) ?? 0;
    };
    const before = [await count('p', 'denied'), await count('s', 'shadow_denied')];
    const { headers } = await running.get(PATH, forwarded('/p', overridden));
    expect(headers.get('ratelimit-policy')).toBe('"p";q=2;w=60');
    expect(headers.get('ratelimit')).toMatch(/^"p";r=\d;t=60$/);
    await running.get(PATH, forwarded('/only', overridden));
    expect(await count('p', 'denied')).toBe(before[0] + 1);
    await expect.poll(() => count('s', 'shadow_denied')).toBe(before[1] + 1);
    const { json } = await running.get('/v1/top?policy=p');
    expect(json.keys.map(({ key }: { key: string }) => key)).toContain('address:192.0.2.9');
  });

  it('a shadow limit below the cost does not deny, and enforced limits apply', async () => {
    const responses = await repeat(3, () => running.get(PATH, forwarded('/s', overridden)));
    expect(statusesOf(responses)).toEqual([200, 200, 429]);
    const only = await running.get(PATH, forwarded('/only', overridden));
    expect([only.status, only.headers.has('ratelimit')]).toEqual([200, false]);
  });
});

describe('forward-auth without the store', () => {
  const config = { policies: [policy('p', 1, '1m')], rules: [rule('/**', [limit('p')])] };

  it.each(['deny', 'throw'] as const)(
    'forward-auth with the failure action %s responds 503, or 403 with ?deny=403',
    async (action) => {
      const running = await startRunning({ config, store: unavailableStore(action) });
      const plain = await running.get(PATH, forwarded('/'));
      expect([plain.status, plain.json.status]).toEqual([503, 503]);
      expect(plain.headers.get('x-sluice-status')).toBe('503');
      expect(plain.headers.has('ratelimit')).toBe(false);
      const disguised = await running.get(`${PATH}?deny=403`, forwarded('/'));
      expect([disguised.status, disguised.headers.get('x-sluice-status')]).toEqual([403, '503']);
      const envoy = await running.get(`${PATH}/ext-authz/`, forwarded('/'));
      expect(envoy.status).toBe(503);
      await running.close();
    },
  );

  it.each([
    ['allow', [200, 200]],
    ['local', [200, 429]],
  ] as const)(
    'forward-auth with the failure action %s responds %j to two requests',
    async (action, statuses) => {
      const running = await startRunning({ config, store: unavailableStore(action) });
      const responses = await repeat(2, () => running.get(PATH, forwarded('/')));
      expect(statusesOf(responses)).toEqual(statuses);
      await running.close();
    },
  );
});
