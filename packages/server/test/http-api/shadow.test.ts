import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readConfig } from '../../src/config/read.ts';
import { makeLog } from '../../src/observe/log.ts';
import { MAX_SHADOW_OVERRIDES } from '../../src/shadow-overrides.ts';
import { forwarded, limit, PATH, rule } from '../forward-auth/forwarded.ts';
import { configOf, policy, type ServiceResponse, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';

const few = policy('few', 2, '1h');
const watched = policy('watched', 1, '1h', { shadow: true });
const policies = [few, watched];
const lines: string[] = [];
const log = makeLog({ logLevel: 'info' }, { write: (line) => lines.push(line) });
const audits = () => lines.map((line) => JSON.parse(line).audit).filter(Boolean);

let api: DocumentedApi;
let config = configOf({ policies });
beforeEach(async () => {
  lines.length = 0;
  config = configOf({ policies, rules: [rule('/few', [limit('few')])] });
  api = await DocumentedApi.of(await startRunning({ config, load: async () => config, log }));
});
afterEach(() => api.close());

const patch = (name: string, shadow: unknown): Promise<ServiceResponse> =>
  api.request('PATCH', `/v1/policies/${name}`, { shadow });

const check = async (policy: string, key: string) =>
  (await api.post('/v1/check', { policy, key })).json;

const shadowOf = async (name: string) => {
  const { shadow, shadowBy } = (await api.get(`/v1/policies/${name}`)).json;
  return [shadow, shadowBy];
};

describe('PATCH /v1/policies/:policy with shadow', () => {
  test('PATCH /v1/policies turns shadow mode on and off from the next decision on', async () => {
    await check('few', 'ada');
    await check('few', 'ada');
    for (let round = 0; round < 3; round++) {
      expect(await check('few', 'ada')).toMatchObject({ allowed: false, remaining: 0 });
      const { status, json } = await patch('few', true);
      expect(status).toBe(200);
      expect(json).toEqual({
        policy: {
          ...{ name: 'few', limit: 2, windowMs: 3_600_000, algorithm: 'sliding-log', costs: {} },
          ...{ shadow: true, shadowBy: 'api', shadowInFile: false, overrides: 0 },
        },
        before: { shadow: false, shadowBy: round === 0 ? 'file' : 'api' },
        persisted: false,
      });
      const inShadow = await check('few', 'ada');
      expect(inShadow).toMatchObject({ allowed: true, limits: [], shadow: [{ allowed: false }] });
      const enforced = (await patch('few', false)).json;
      expect(enforced.policy).toMatchObject({ shadow: false, shadowBy: 'api' });
      expect(enforced.before).toEqual({ shadow: true, shadowBy: 'api' });
    }
  });

  test('a change of shadow mode keeps the counters', async () => {
    await check('few', 'ada');
    await patch('few', true);
    expect((await check('few', 'ada')).shadow).toMatchObject([{ allowed: true, remaining: 0 }]);
    await patch('few', false);
    expect(await check('few', 'ada')).toMatchObject({ allowed: false, remaining: 0 });
    expect((await api.get('/v1/keys/few/ada')).json.used).toBe(2);
  });

  test('PATCH /v1/policies enforces a policy that the files put in shadow mode', async () => {
    await check('watched', 'ada');
    expect(await check('watched', 'ada')).toMatchObject({ allowed: true });
    await patch('watched', false);
    expect(await check('watched', 'ada')).toMatchObject({ allowed: false, limit: 1 });
    await patch('watched', null);
    expect(await check('watched', 'ada')).toMatchObject({ allowed: true, limits: [] });
  });

  test('PATCH /v1/policies affects one policy, also in a check of several', async () => {
    await patch('watched', false);
    const limits = policies.map(({ name }) => ({ policy: name, key: 'joint' }));
    const joint = async () => (await api.post('/v1/check', { limits })).json;
    expect((await joint()).limits).toHaveLength(2);
    expect(await joint()).toMatchObject({ allowed: false, policy: 'watched' });
    await patch('watched', true);
    expect(await joint()).toMatchObject({ allowed: true, policy: 'few', remaining: 0 });
    expect(await joint()).toMatchObject({ allowed: false, policy: 'few' });
    await patch('few', true);
    const neither = await joint();
    expect([neither.allowed, neither.limits, neither.shadow.length]).toEqual([true, [], 2]);
  });

  test('PATCH /v1/policies with null deletes the shadow override', async () => {
    expect(await shadowOf('watched')).toEqual([true, 'file']);
    await patch('watched', false);
    expect(await shadowOf('watched')).toEqual([false, 'api']);
    const { json } = await patch('watched', null);
    expect(json.before).toEqual({ shadow: false, shadowBy: 'api' });
    expect(json.policy).toMatchObject({ shadow: true, shadowBy: 'file' });
    expect(await shadowOf('watched')).toEqual([true, 'file']);
    const again = await patch('watched', null);
    expect([again.status, again.json.before]).toEqual([200, { shadow: true, shadowBy: 'file' }]);
  });

  test('PATCH /v1/policies sets `shadowBy` to api even if the files agree', async () => {
    expect((await patch('few', false)).json.policy).toMatchObject({ shadowBy: 'api' });
    expect((await patch('watched', true)).json.policy).toMatchObject({ shadowBy: 'api' });
    const { json } = await api.get('/v1/policies');
    expect(json.policies).toMatchObject([
      { name: 'few', shadow: false, shadowBy: 'api' },
      { name: 'watched', shadow: true, shadowBy: 'api' },
    ]);
  });

  test('PATCH /v1/policies responds 404 for an unknown policy', async () => {
    for (const name of ['none', '__proto__', 'constructor', 'sluice.none']) {
      for (const shadow of [true, false, null]) {
        const { status, json } = await patch(name, shadow);
        expect([status, json.code]).toEqual([404, 'ERR_UNKNOWN_POLICY']);
      }
    }
    expect(audits()).toEqual([]);
  });

  const inFiles = 'change it in the configuration files, or for a key by an override';
  const expectedShadow = 'Expected `shadow` to be true, false, or null for the value in the files';
  test.each([
    [undefined, 'Expected the body to be JSON, got an empty body', ''],
    [[], 'Expected the body to be an object with shadow, got ', ''],
    [null, 'Expected the body to be an object with shadow, got ', ''],
    [true, 'Expected the body to be an object with shadow, got ', ''],
    [{}, `${expectedShadow}, got nothing`, '/shadow'],
    [{ shadow: 'true' }, `${expectedShadow}, got \`"true"\``, '/shadow'],
    [{ shadow: 1 }, `${expectedShadow}, got \`1\``, '/shadow'],
    [{ shadow: {} }, expectedShadow, '/shadow'],
    [{ shadow: true, limit: 5 }, `Expected only shadow, got \`limit\`; ${inFiles}`, '/limit'],
    [{ limit: 5 }, `Expected only shadow, got \`limit\`; ${inFiles}`, '/limit'],
    [{ window: '1m' }, 'got `window`; change it in the configuration files', '/window'],
    [{ shdaow: true }, 'Expected only shadow, got `shdaow`', '/shdaow'],
  ])('PATCH /v1/policies rejects the body %j', async (body, detail, pointer) => {
    const { status, json } = await api.request('PATCH', '/v1/policies/few', body);
    expect([status, json.code]).toEqual([400, 'ERR_INVALID_BODY']);
    expect(json.detail).toContain(detail);
    if (pointer !== '') expect(json.pointer).toBe(pointer);
    expect(await shadowOf('few')).toEqual([false, 'file']);
    expect(audits()).toEqual([]);
  });

  test('PATCH /v1/policies rejects a query', async () => {
    const { status } = await api.request('PATCH', '/v1/policies/few?shadow=true', { shadow: true });
    expect([status, await shadowOf('few')]).toEqual([400, [false, 'file']]);
  });

  test('PATCH /v1/policies writes an audit line with the values before and after', async () => {
    await patch('few', true);
    await patch('few', null);
    const file = { shadow: false, shadowBy: 'file' };
    const ofApi = { shadow: true, shadowBy: 'api' };
    expect(audits()).toMatchObject([
      { action: 'policy.shadow', policy: 'few', before: file, after: ofApi },
      { action: 'policy.shadow', policy: 'few', before: ofApi, after: file },
    ]);
  });

  test('PATCH /v1/policies requires the admin token', async () => {
    const running = await startRunning({ config, settings: { adminToken: 'x'.repeat(20) } });
    const rejected = await running.request('PATCH', '/v1/policies/few', { shadow: true });
    expect([rejected.status, rejected.json.code]).toEqual([401, 'ERR_UNAUTHORIZED']);
    const headers = { authorization: `Bearer ${'x'.repeat(20)}` };
    const accepted = await running.request('PATCH', '/v1/policies/few', { shadow: true }, headers);
    expect([accepted.status, accepted.json.before.shadow]).toEqual([200, false]);
    await running.close();
  });
});

describe('shadow overrides', () => {
  const reload = (changed: readonly object[]) => {
    config = configOf({ policies: changed as typeof policies });
    return api.post('/v1/reload');
  };

  test('a shadow override survives a reload', async () => {
    await patch('few', true);
    await patch('watched', false);
    for (const shadow of [true, false]) {
      await reload([policy('few', 2, '1h', { shadow }), policy('watched', 1, '1h', { shadow })]);
      expect([await shadowOf('few'), await shadowOf('watched')]).toEqual([
        [true, 'api'],
        [false, 'api'],
      ]);
    }
    await patch('few', null);
    expect(await shadowOf('few')).toEqual([false, 'file']);
  });

  test('a shadow override applies again when its policy is restored', async () => {
    await check('few', 'ada');
    await check('few', 'ada');
    await patch('few', true);
    await reload([watched]);
    expect((await api.get('/v1/policies/few')).status).toBe(404);
    for (const shadow of [true, false]) expect((await patch('few', shadow)).status).toBe(404);
    const { status } = await api.post('/v1/check', { policy: 'few', key: 'ada' });
    expect(status).toBe(400);
    await reload(policies);
    expect(await shadowOf('few')).toEqual([true, 'api']);
    expect((await check('few', 'ada')).shadow).toMatchObject([{ allowed: false }]);
  });

  test('a shadow override of a removed policy can be deleted once', async () => {
    await patch('few', true);
    await reload([watched]);
    const { status, json } = await patch('few', null);
    const before = { shadow: true, shadowBy: 'api' };
    expect([status, json]).toEqual([200, { before, persisted: false }]);
    expect(audits().at(-1)).toMatchObject({ action: 'policy.shadow', before, after: null });
    expect((await patch('few', null)).status).toBe(404);
    await reload(policies);
    expect(await shadowOf('few')).toEqual([false, 'file']);
  });

  test('a shadow override applies to forward-auth', async () => {
    const statusOf = async () => (await api.running.get(PATH, forwarded('/few'))).status;
    expect([await statusOf(), await statusOf(), await statusOf()]).toEqual([200, 200, 429]);
    await patch('few', true);
    expect(await statusOf()).toBe(200);
    await patch('few', null);
    expect(await statusOf()).toBe(429);
    // A cost above the limit is denied without the store, and allowed in shadow mode.
    await api.put('/v1/overrides/few/*', { limit: 1 });
    config = configOf({ policies, rules: [rule('/few', [limit('few', 'address', { cost: 2 })])] });
    await api.post('/v1/reload');
    expect(await statusOf()).toBe(429);
    await patch('few', true);
    expect(await statusOf()).toBe(200);
  });

  test('a shadow override applies to descriptors of Envoy', async () => {
    const text = `
domain: shop
descriptors:
  - { key: two, rate_limit: { unit: hour, requests_per_unit: 2 } }
  - { key: seen, shadow_mode: true, rate_limit: { unit: hour, requests_per_unit: 1 } }
`;
    config = readConfig([{ path: 'envoy.yaml', text }]);
    await api.post('/v1/reload');
    const [two, seen] = config.policies.map(({ name }) => encodeURIComponent(name));
    const send = async (key: string, hitsAddend = 1) => {
      const descriptors = [{ entries: [{ key, value: 'a' }] }];
      const body = { domain: 'shop', descriptors, hitsAddend };
      const { status, json } = await api.running.post('/json', body);
      return [status, json.statuses[0].code];
    };
    await send('two', 2);
    expect(await send('two')).toEqual([429, 'OVER_LIMIT']);
    await patch(two, true);
    expect([await send('two'), await send('two', 3)]).toEqual([
      [200, 'OK'],
      [200, 'OK'],
    ]);
    await patch(two, false);
    expect(await send('two')).toEqual([429, 'OVER_LIMIT']);
    await send('seen');
    expect(await send('seen')).toEqual([200, 'OK']);
    await patch(seen, false);
    expect(await send('seen')).toEqual([429, 'OVER_LIMIT']);
  });

  test('a shadow override changes the outcome label of decisions', async () => {
    const series = async () => {
      const { text } = await api.running.get('/metrics');
      const found = text.matchAll(
        /^sluice_decisions_total\{policy="few",outcome="(\w+)"\} (\d+)$/gm,
      );
      return Object.fromEntries([...found].map(([, outcome, count]) => [outcome, Number(count)]));
    };
    expect(await series()).toEqual({ allowed: 0, denied: 0 });
    await patch('few', true);
    expect(await series()).toEqual({ shadow_allowed: 0, shadow_denied: 0 });
    for (let call = 0; call < 3; call++) await check('few', 'ada');
    expect(await series()).toEqual({ shadow_allowed: 2, shadow_denied: 1 });
    await patch('few', false);
    await check('few', 'ada');
    expect(await series()).toEqual({ allowed: 0, denied: 1, shadow_allowed: 2, shadow_denied: 1 });
    const { json } = await api.get('/v1/top?policy=few');
    expect(json.keys).toEqual([{ key: 'ada', atLeast: 2, atMost: 2 }]);
  });

  test('the number of shadow overrides is limited to 1,000', async () => {
    const { shadowOverrides } = api.running.service.app.decisionService;
    for (let at = 0; at < MAX_SHADOW_OVERRIDES; at++)
      shadowOverrides.set({ policy: `p${at}`, shadow: true });
    const { status, json } = await patch('few', true);
    expect([status, json.code]).toEqual([400, 'ERR_INVALID_OPTION']);
    expect(json.detail).toContain('Expected at most 1000 policies with shadow mode set');
    expect([await shadowOf('few'), audits()]).toEqual([[false, 'file'], []]);
    shadowOverrides.set({ policy: 'p0', shadow: false });
    shadowOverrides.set({ policy: 'p1', shadow: null });
    expect((await patch('few', true)).status).toBe(200);
  });
});
