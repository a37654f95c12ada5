import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { awayStore } from '../fallible-store.ts';
import { policy, type Running, startRunning } from '../running.ts';
import { forwarded, limit, PATH, repeat, rule, statusesOf } from './asking.ts';

describe('an override below the cost', () => {
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

  const dear = { 'x-forwarded-for': '192.0.2.9' };

  it('denies without Retry-After if the override is below the cost', async () => {
    const answer = await running.get(PATH, forwarded('/p', dear));
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, null]);
    expect(answer.json).toMatchObject({ status: 429, 'violated-policies': ['p'] });
    expect(answer.json).not.toHaveProperty('retry-after-ms');
    const disguised = await running.get(`${PATH}?deny=403`, forwarded('/p', dear));
    expect([disguised.status, disguised.headers.get('x-sluice-status')]).toEqual([403, '429']);
    expect((await running.get(PATH, forwarded('/p'))).status).toBe(200);
  });

  it('a denial for ever has RateLimit headers and is counted and listed', async () => {
    const count = async (policy: string, outcome: string): Promise<number> => {
      const { text } = await running.get('/metrics');
      const label = `sluice_decisions_total{policy="${policy}",outcome="${outcome}"} `;
      const line = text.split('\n').find((each) => each.startsWith(label));
      return Number(line?.slice(label.length) ?? 0);
    };
    const before = [await count('p', 'denied'), await count('s', 'shadow_denied')];
    const { headers } = await running.get(PATH, forwarded('/p', dear));
    expect(headers.get('ratelimit-policy')).toBe('"p";q=2;w=60');
    expect(headers.get('ratelimit')).toMatch(/^"p";r=\d;t=60$/);
    await running.get(PATH, forwarded('/only', dear));
    expect(await count('p', 'denied')).toBe(before[0] + 1);
    await expect.poll(() => count('s', 'shadow_denied')).toBe(before[1] + 1);
    const { json } = await running.get('/v1/top?policy=p');
    expect(json.keys.map(({ key }: { key: string }) => key)).toContain('address:192.0.2.9');
  });

  it('a shadow limit below the cost does not deny, and enforced limits apply', async () => {
    const answers = await repeat(3, () => running.get(PATH, forwarded('/s', dear)));
    expect(statusesOf(answers)).toEqual([200, 200, 429]);
    const only = await running.get(PATH, forwarded('/only', dear));
    expect([only.status, only.headers.has('ratelimit')]).toEqual([200, false]);
  });
});

describe('while the store is unavailable', () => {
  const config = { policies: [policy('p', 1, '1m')], rules: [rule('/**', [limit('p')])] };

  it.each(['deny', 'throw'] as const)(
    'the action %s responds 503, or 403 with deny=403',
    async (action) => {
      const running = await startRunning({ config, store: awayStore(action) });
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
  ] as const)('the action %s responds %j', async (action, statuses) => {
    const running = await startRunning({ config, store: awayStore(action) });
    const answers = await repeat(2, () => running.get(PATH, forwarded('/')));
    expect(statusesOf(answers)).toEqual(statuses);
    await running.close();
  });
});
