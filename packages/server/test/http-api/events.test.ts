import { once } from 'node:events';
import { createServer, get, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { memoryStore, type Store } from 'sluice';
import { afterEach, describe, expect, test } from 'vitest';
import { EventStream, MAX_BACKLOG_BYTES } from '../../src/http-api/events.ts';
import { MAX_DENIALS } from '../../src/observe/denials.ts';
import { MAX_STREAMS } from '../../src/observe/feed.ts';
import { fallibleStore, opened } from '../fallible-store.ts';
import { configOf, policy, type Running, startRunning } from '../running.ts';
import { DocumentedApi } from './documented-api.ts';
import { EventReader, sumOf } from './event-reader.ts';

const POLICIES = [
  policy('few', 2, '1h'),
  policy('many', 1_000_000, '1h'),
  policy('watched', 1, '1h', { shadow: true }),
];

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function start(options: Parameters<typeof startRunning>[0] = {}): Promise<Running> {
  const running = await startRunning({ config: { policies: POLICIES }, ...options });
  open.push(running);
  return running;
}

async function listen(running: Running, path?: string, headers = {}): Promise<EventReader> {
  const reader = await EventReader.greeted(running.url, path, headers);
  open.push(reader);
  return reader;
}

/** Decides without HTTP, so that many decisions take little time. */
function decide({ service }: Running, name: string, key: string, times = 1): void {
  const { decisionService } = service.app;
  const limits = decisionService.limits([{ policy: name, key }]);
  for (let at = 0; at < times; at++) decisionService.decide(limits);
}

const metric = async (running: Running, name: string, outcome: string): Promise<number> => {
  const { text } = await running.get('/metrics');
  const start = `sluice_decisions_total{policy="${name}",outcome="${outcome}"}`;
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(start))
      ?.split(' ')
      .at(-1) ?? 0,
  );
};

describe('GET /v1/events', () => {
  test('GET /v1/events streams events that match the OpenAPI document', async () => {
    const running = await start();
    const api = await DocumentedApi.of(running);
    const reader = await listen(running);
    expect(reader.status).toBe(200);
    expect(reader.headers).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
    });
    expect(reader.preamble).toBe('retry: 2000');
    decide(running, 'few', 'a', 3);
    decide(running, 'watched', 'b', 3);
    await running.post('/v1/check', { policy: 'few', key: 'a' });
    await running.service.app.configuration.reload();
    const timed = () => reader.ticks.find((tick) => tick.decisions.p50Ms !== undefined);
    // The changed event is delayed and may come after the tick.
    await reader.until(
      () =>
        sumOf(reader.ticks, 'denied') === 2 &&
        timed() !== undefined &&
        reader.of('changed').length > 0,
    );
    for (const { event, data } of reader.events) {
      const name = `${event[0].toUpperCase()}${event.slice(1)}Event`;
      expect(api.problems(['components', 'schemas', name], data)).toBeUndefined();
      expect(api.problems(['components', 'schemas', 'LiveEvent'], data)).toBeUndefined();
    }
    expect(new Set(reader.events.map(({ event }) => event))).toEqual(
      new Set(['hello', 'changed', 'tick']),
    );
    const [{ store }] = reader.ticks;
    expect(store).toMatchObject({ kind: 'memory', up: true, keys: expect.any(Number) });
    expect(store.latencyMs).toBeGreaterThan(0);
    const { decisions } = timed();
    expect(decisions.p99Ms).toBeGreaterThanOrEqual(decisions.p50Ms);
  });

  test('GET /v1/events sends a tick per second, and sums equal history and metrics', async () => {
    const running = await start();
    const reader = await listen(running);
    const paths = ['few', 'many', 'watched'].map((each) => ({ policy: each, key: 'k' }));
    while (reader.ticks.length < 4) {
      await running.post('/v1/check', { limits: paths });
      await running.post('/v1/check', { policy: 'many', key: 'k' });
    }
    await reader.nextTick();
    const seconds = reader.ticks.map(({ atMs }) => atMs / 1000);
    expect(seconds).toEqual(seconds.map((_, at) => seconds[0] + at));
    expect(seconds.every(Number.isInteger)).toBe(true);
    for (const [field, outcome] of Object.entries({
      ...{ allowed: 'allowed', denied: 'denied', shadowDenied: 'shadow_denied' },
      ...{ shadowAllowed: 'shadow_allowed' },
    })) {
      for (const { name } of POLICIES) {
        const received = sumOf(reader.ticks, field, name);
        expect([name, field, received]).toEqual([
          ...[name, field, await metric(running, name, outcome)],
        ]);
      }
    }
    expect(sumOf(reader.ticks, 'denied')).toBeGreaterThan(1);
    const { json } = await running.get('/v1/series?seconds=60');
    for (const { atMs, total, policies } of reader.ticks) {
      const at = (atMs - json.startMs) / 1000;
      expect(json.total.allowed[at]).toBe(total.allowed);
      expect(json.total.fullest[at]).toBe(total.fullest);
      for (const { name, denied } of policies) {
        const row = json.policies.find((each: { name: string }) => each.name === name);
        expect(row.denied[at]).toBe(denied);
      }
    }
  });

  test('an event stream has all decisions after hello and no earlier ones', async () => {
    const running = await start();
    const { history } = running.service.app.live;
    history.stop();
    decide(running, 'many', 'before');
    const { lastMs } = history;
    await expect.poll(() => history.lastMs, { timeout: 20_000 }).toBeGreaterThan(lastMs + 1000);
    const reader = await listen(running);
    decide(running, 'many', 'after');
    await reader.nextTick();
    expect(sumOf(reader.ticks, 'allowed')).toBe(1);
  });

  test('an event stream limits the denials per tick, and a filter finds a rare key', async () => {
    const running = await start();
    const all = await listen(running);
    const rare = await listen(running, '/v1/events?policy=few&key=ra*e');
    const other = await listen(running, '/v1/events?policy=many');
    decide(running, 'few', 'flood', 5002);
    decide(running, 'few', 'rare', 3);
    decide(running, 'few', 'flood', 4999);
    await Promise.all([all, rare, other].map((each) => each.nextTick()));
    const denied = (reader: EventReader): number =>
      reader.ticks.reduce((sum, each) => sum + each.denials.length + each.denialsOmitted, 0);
    expect([denied(all), denied(rare), denied(other)]).toEqual([10_000, 1, 0]);
    expect(sumOf(all.ticks, 'denied')).toBe(10_000);
    for (const { denials } of all.ticks) expect(denials.length).toBeLessThanOrEqual(MAX_DENIALS);
    expect(rare.denials).toMatchObject([{ policy: 'few', key: 'rare', limit: 2 }]);
    // All other fields are the same for all streams.
    expect(sumOf(other.ticks, 'denied')).toBe(10_000);
  });

  test('the hello event contains the address of Grafana only if one is set', async () => {
    const grafanaUrl = 'https://grafana.example/d/sluice?var-policy=All';
    for (const settings of [{ grafanaUrl: undefined }, { grafanaUrl }]) {
      const running = await start({ settings });
      const reader = await listen(running);
      expect(reader.of('hello')[0].grafanaUrl).toBe(settings.grafanaUrl);
    }
  });

  test('GET /v1/events rejects an invalid filter', async () => {
    const running = await start();
    const api = await DocumentedApi.of(running);
    const wrong: readonly [string, number, string][] = [
      ['policy=none', 404, 'ERR_UNKNOWN_POLICY'],
      ['policy=', 404, 'ERR_UNKNOWN_POLICY'],
      ['key=', 400, 'ERR_INVALID_KEY'],
      [`key=${'x'.repeat(1025)}`, 400, 'ERR_INVALID_KEY'],
      ['polcy=few', 400, 'ERR_INVALID_OPTION'],
    ];
    for (const [query, status, code] of wrong) {
      const answer = await api.get(`/v1/events?${query}`);
      expect([query, answer.status, answer.json.code]).toEqual([query, status, code]);
    }
    expect(running.service.app.live.feed.listeners).toBe(0);
  });

  test('/v1/events responds to GET and HEAD only', async () => {
    const running = await start();
    const head = await running.request('HEAD', '/v1/events');
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    expect((await running.post('/v1/events', {})).status).toBe(405);
    expect(running.service.app.live.feed.listeners).toBe(0);
  });

  test('GET /v1/events limits the number of streams, and a closed one makes room', async () => {
    const running = await start();
    const { feed } = running.service.app.live;
    const readers = await Promise.all(Array.from({ length: MAX_STREAMS }, () => listen(running)));
    const { status, json } = await running.get('/v1/events');
    expect([status, json.code]).toEqual([503, 'ERR_TOO_MANY_STREAMS']);
    // Other requests are served, and streams do not count as requests in flight.
    expect((await running.post('/v1/check', { policy: 'few', key: 'a' })).status).toBe(200);
    const { text } = await running.get('/metrics');
    expect(text).toContain('sluice_http_requests_in_flight 1\n');
    readers[0].close();
    await expect.poll(() => feed.listeners).toBe(MAX_STREAMS - 1);
    await listen(running);
  });

  test('the service stops collecting denials when the last event stream closes', async () => {
    const running = await start();
    const { live, metrics } = running.service.app;
    const reader = await listen(running);
    expect(metrics.counters.onDenial).toBeDefined();
    reader.close();
    await expect.poll(() => live.feed.listeners).toBe(0);
    await expect.poll(() => metrics.counters.onDenial, { timeout: 20_000 }).toBeUndefined();
  });

  test('GET /v1/events sends changed events for policies and overrides', async () => {
    let isBad = true;
    const load = async () => {
      if (isBad) throw new Error('Expected something else');
      return configOf({ policies: POLICIES });
    };
    const running = await start({ load });
    const reader = await listen(running);
    await running.post('/v1/reload', {});
    await reader.nextTick();
    expect(reader.of('changed')).toEqual([]);
    const next = async (count: number) => {
      await reader.until(() => reader.of('changed').length >= count);
      return reader
        .of('changed')
        .splice(0)
        .slice(count - 1);
    };
    await running.request('PUT', '/v1/overrides/few/a', { limit: 5 });
    expect(await next(1)).toEqual([{ what: 'overrides' }]);
    await running.request('DELETE', '/v1/overrides/few/a');
    expect(await next(2)).toEqual([{ what: 'overrides' }]);
    await running.request('PATCH', '/v1/policies/few', { shadow: true });
    expect(await next(3)).toEqual([{ what: 'policies' }]);
    isBad = false;
    await running.post('/v1/reload', {});
    expect(await next(4)).toEqual([{ what: 'policies' }, { what: 'overrides' }]);
  });

  test('event streams report an unavailable store and the degraded decisions', async () => {
    const { store, state } = fallibleStore();
    const running = await start({ store: opened(store) });
    const reader = await listen(running);
    expect((await reader.first('tick')).store).toMatchObject({ up: true, breaker: 'closed' });
    state.isUnavailable = true;
    for (let call = 0; call < 20; call++) {
      await running.post('/v1/check', { policy: 'few', key: 'a', onFailure: 'deny' });
    }
    await reader.until(() => reader.ticks.at(-1).store.breaker === 'open');
    const { store: received } = reader.ticks.at(-1);
    expect(received).toEqual({ kind: 'redis', up: false, breaker: 'open' });
    await reader.until(() => sumOf(reader.ticks, 'degraded') === 20);
    expect(reader.denials[0]).toMatchObject({ key: 'a', degraded: { action: 'deny' } });
    state.isUnavailable = false;
    await reader.until(() => reader.ticks.at(-1).store.up);
  });

  test('event streams report a hung store as down without waiting', async () => {
    const inner = memoryStore();
    const state = { isHanging: false };
    const never = new Promise<never>(() => {});
    const store: Store = {
      decide: (checks) => (state.isHanging ? never : inner.decide(checks)),
      adjust: (adjustments) => inner.adjust(adjustments),
      adjustOnce: (id, adjustments) => inner.adjustOnce!(id, adjustments),
      reset: (...key) => inner.reset(...key),
      close: () => inner.close(),
    };
    const running = await start({ store: opened(store) });
    const reader = await listen(running);
    expect((await reader.first('tick')).store.up).toBe(true);
    state.isHanging = true;
    await reader.until(() => !reader.ticks.at(-1).store.up);
    expect(reader.ticks.at(-1).store).toEqual({ kind: 'redis', up: false });
  });

  test('an event stream ends when the session of its client ends', async () => {
    const adminToken = 'a token of enough letters';
    const running = await start({ settings: { adminToken } });
    expect((await running.get('/v1/events')).status).toBe(401);
    const { headers } = await running.post('/v1/session', { token: adminToken });
    const cookie = headers.get('set-cookie')!.split(';')[0];
    const site = { 'sec-fetch-site': 'same-origin' };
    const ofSession = await listen(running, '/v1/events', { cookie, ...site });
    const ofToken = await listen(running, '/v1/events', { authorization: `Bearer ${adminToken}` });
    await ofSession.first('tick');
    await running.request('DELETE', '/v1/session', undefined, { cookie, ...site });
    expect(await ofSession.first('end')).toEqual({ why: 'expired' });
    await ofSession.closed();
    await ofToken.nextTick();
    expect(ofToken.of('end')).toEqual([]);
  });

  test('shutdown ends event streams without waiting', async () => {
    // Longer than the test may take.
    const running = await startRunning({
      config: { policies: POLICIES },
      settings: { drainMs: '10m' },
    });
    const readers = await Promise.all([
      EventReader.greeted(running.url),
      EventReader.open(running.url),
    ]);
    await running.close();
    for (const reader of readers) {
      expect(await reader.first('end')).toEqual({ why: 'stopping' });
      await reader.closed();
    }
    expect(running.service.app.live.feed.listeners).toBe(0);
  });
});

describe('a stream that is not read', () => {
  /** A stream and a response that reads it or does not. */
  async function streamed() {
    const server = createServer({ highWaterMark: 1024 });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    open.push({ close: () => server.closeAllConnections() }, server);
    const asked = once(server, 'request');
    const { port } = server.address() as AddressInfo;
    const answered = once(get({ port, host: '127.0.0.1', agent: false }), 'response');
    const [, response] = (await asked) as [IncomingMessage, ServerResponse];
    const stream = new EventStream(response, {}, () => true);
    const [answer] = (await answered) as [IncomingMessage];
    answer.on('error', () => {});
    return { stream, response, answer };
  }
  const turn = () => new Promise((resolve) => setTimeout(resolve, 1));

  test('an event stream is slow if its backlog exceeds the limit', async () => {
    const { stream, response, answer } = await streamed();
    answer.pause();
    expect(stream.isSlow).toBe(false);
    let sent = 0;
    // Bytes in the system's buffers do not count.
    for (; !stream.isSlow && sent < 1000; sent++) {
      stream.send('tick', JSON.stringify('x'.repeat(64 * 1024)));
      await turn();
    }
    expect(sent).toBeLessThan(1000);
    expect(sent * 64 * 1024).toBeGreaterThan(MAX_BACKLOG_BYTES);
    stream.end('slow');
    // The response closes without a reader.
    await once(response, 'close');
    const closed = new Promise((resolve) => answer.once('close', resolve));
    answer.resume();
    await closed;
    expect(answer.complete).toBe(false);
    stream.send('tick', '1');
    stream.end('slow');
  });

  test('an event stream that the client reads is never slow', async () => {
    const { stream, answer } = await streamed();
    let size = 0;
    answer.on('data', ({ length }: Buffer) => {
      size += length;
    });
    for (let sent = 0; sent < 100; sent++) {
      stream.send('tick', JSON.stringify('x'.repeat(64 * 1024)));
      await expect.poll(() => stream.isSlow, { interval: 1 }).toBe(false);
    }
    stream.end('stopping');
    await once(answer, 'end');
    expect(answer.complete).toBe(true);
    expect(size).toBeGreaterThan(6_000_000);
  });
});
