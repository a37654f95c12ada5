/** `sluice/otel` with the real SDK and in-memory exporters. */
import { context, type Span, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { fastify } from 'fastify';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { rateLimit as fastifyLimit } from '../../src/adapters/fastify.ts';
import { rateLimit } from '../../src/adapters/fetch.ts';
import { withFailurePolicy } from '../../src/failure/index.ts';
import { createLimiter, ManualClock, type Store } from '../../src/index.ts';
import { type OpenTelemetryOptions, openTelemetry } from '../../src/otel/index.ts';
import { promisesOnly } from '../promises-only.ts';

const spans = new InMemorySpanExporter();
const tracerProvider = new BasicTracerProvider({
  spanProcessors: [new SimpleSpanProcessor(spans)],
});
const tracer = tracerProvider.getTracer('test');

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});
afterEach(() => spans.reset());
afterAll(async () => {
  context.disable();
  await tracerProvider.shutdown();
});

/** Returns listeners, and a function that resolves to the exported metrics by name. */
function setUp(options: OpenTelemetryOptions = {}) {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1e9 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  const exported = async () => {
    await meterProvider.forceFlush();
    const all =
      exporter
        .getMetrics()
        .at(-1)
        ?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? [];
    await meterProvider.shutdown();
    return Object.fromEntries(
      all.map(({ descriptor, dataPoints }) => [
        descriptor.name,
        {
          unit: descriptor.unit,
          points: dataPoints.map(({ attributes, value }) => [attributes, value]),
        },
      ]),
    );
  };
  return { telemetry: openTelemetry({ meterProvider, ...options }), exported };
}

/** Runs a task in a span. Returns the attributes and events of the ended span. */
async function traced(task: (span: Span) => unknown) {
  await tracer.startActiveSpan('request', async (span) => {
    await task(span);
    span.end();
  });
  const [{ attributes, events }] = spans.getFinishedSpans().slice(-1);
  return {
    attributes,
    events: events.map(({ name, attributes: each }) => [name, each]),
  };
}

const clock = () => new ManualClock(1_745_000_100_000);
const of = (policy: string, outcome: string) => ({
  'sluice.policy': policy,
  'sluice.outcome': outcome,
});

describe('metrics', () => {
  it('each limit of a check is counted by policy and outcome', async () => {
    const { telemetry, exported } = setUp();
    const limiter = createLimiter({ policies: { user: '1/1h', all: '5/1h' }, clock: clock() });
    limiter.onDecision(telemetry.onDecision);
    const both = (key: string) =>
      limiter.check([
        { policy: 'user', key },
        { policy: 'all', key: 'all' },
      ]);
    for (const key of ['ada', 'ada', 'bob']) await both(key);
    expect(await exported()).toEqual({
      'sluice.decisions': {
        unit: '{decision}',
        points: [
          [of('user', 'allowed'), 2],
          [of('all', 'allowed'), 2],
          [of('user', 'denied'), 1],
          [of('all', 'released'), 1],
        ],
      },
    });
  });

  it('the number of series does not depend on the number of keys', async () => {
    const { telemetry, exported } = setUp({ key: (key) => key });
    const limiter = createLimiter({ policies: { p: '1/1h' } });
    limiter.onDecision(telemetry.onDecision);
    await traced(async () => {
      for (let key = 0; key < 5000; key++) await limiter.check('p', `key-${key}`);
    });
    expect((await exported())['sluice.decisions'].points).toEqual([[of('p', 'allowed'), 5000]]);
  });

  it('checks that the store could not decide are counted by reason and action', async () => {
    const { telemetry, exported } = setUp();
    const fail = () => Promise.reject(new Error('store is down'));
    const store: Store = { decide: fail, adjust: fail, reset: fail, close: async () => {} };
    const limiter = createLimiter({
      policies: { p: '1/1h' },
      store: withFailurePolicy(store, { onFailure: 'deny' }),
    });
    limiter.onDecision(telemetry.onDecision);
    const { attributes } = await traced(() => limiter.check('p', 'a'));
    const degraded = { 'sluice.degraded.reason': 'error', 'sluice.degraded.action': 'deny' };
    expect(attributes).toMatchObject({ ...of('p', 'denied'), ...degraded });
    const metrics = await exported();
    expect(metrics['sluice.decisions'].points).toEqual([[of('p', 'denied'), 1]]);
    expect(metrics['sluice.degraded.checks']).toEqual({
      unit: '{check}',
      points: [[{ 'sluice.policy': 'p', ...degraded }, 1]],
    });
  });

  it('openTelemetry uses a global meter provider that is set later', async () => {
    const { metrics } = await import('@opentelemetry/api');
    const telemetry = openTelemetry();
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 1e9 });
    const provider = new MeterProvider({ readers: [reader] });
    metrics.setGlobalMeterProvider(provider);
    const limiter = createLimiter({ policies: { p: '1/1h' } });
    limiter.onDecision(telemetry.onDecision);
    await limiter.check('p', 'a');
    await provider.forceFlush();
    expect(exporter.getMetrics()[0].scopeMetrics[0].metrics).toHaveLength(1);
    metrics.disable();
    await provider.shutdown();
  });
});

describe('spans', () => {
  it.each([
    ['a synchronous store', undefined],
    ['an asynchronous store', promisesOnly],
  ])('the active span has the decision, and a denial is an event, on %s', async (_, open) => {
    const { telemetry } = setUp();
    const limiter = createLimiter({
      ...{ policies: { p: '5/1m' }, clock: clock() },
      ...(open && { store: open() }),
    });
    limiter.onDecision(telemetry.onDecision);
    const allowed = await traced(() => limiter.check('p', 'a', { cost: 3 }));
    expect(allowed).toEqual({
      attributes: {
        ...of('p', 'allowed'),
        'sluice.cost': 3,
        'sluice.limit': 5,
        'sluice.remaining': 2,
      },
      events: [],
    });
    const denied = await traced(() => limiter.check('p', 'a', { cost: 3 }));
    expect(denied.attributes).toEqual({
      ...of('p', 'denied'),
      'sluice.cost': 3,
      'sluice.limit': 5,
      'sluice.remaining': 2,
      'sluice.retry_after_ms': 60_000,
    });
    expect(denied.events).toEqual([
      ['sluice.denied', { 'sluice.policy': 'p', 'sluice.retry_after_ms': 60_000 }],
    ]);
  });

  it('an acquire that a refund wakes is recorded on the span of the acquire', async () => {
    const { telemetry } = setUp();
    const limiter = createLimiter({ policies: { p: '1/1h' }, clock: clock() });
    const { receipt } = await limiter.check('p', 'a');
    limiter.onDecision(telemetry.onDecision);
    let refunding: Promise<unknown> | undefined;
    const waiter = traced(() => limiter.acquire('p', 'a'));
    await tracer.startActiveSpan('other', async (span) => {
      refunding = limiter.refund(receipt!);
      await refunding;
      await new Promise((resolve) => setImmediate(resolve));
      span.end();
    });
    await waiter;
    const byName = Object.fromEntries(
      spans.getFinishedSpans().map(({ name, attributes }) => [name, attributes]),
    );
    expect(byName.request).toMatchObject(of('p', 'allowed'));
    expect(byName.other).toEqual({});
  });

  it('the key is recorded only with the key option', async () => {
    const { telemetry } = setUp({ key: (key) => `hash of ${key.length}` });
    const limiter = createLimiter({ policies: { p: '5/1m' } });
    limiter.onDecision(telemetry.onDecision);
    const { attributes } = await traced(() => limiter.check('p', 'ada'));
    expect(attributes['sluice.key']).toBe('hash of 3');
  });

  it('decisions without an active span or in an ended span change no span', async () => {
    const { telemetry, exported } = setUp();
    const limiter = createLimiter({ policies: { p: '5/1m' } });
    limiter.onDecision(telemetry.onDecision);
    await limiter.check('p', 'a');
    const ended = tracer.startSpan('ended');
    ended.end();
    await context.with(trace.setSpan(context.active(), ended), () => limiter.check('p', 'a'));
    expect(spans.getFinishedSpans()[0].attributes).toEqual({});
    expect((await exported())['sluice.decisions'].points).toEqual([[of('p', 'allowed'), 2]]);
  });
});

describe('adapters', () => {
  const limits = [
    { name: 'api', limit: 2, window: '1h' },
    { name: 'planned', limit: 1, window: '1h', shadow: true },
  ] as const;

  it('an adapter accepts onDecision and onShadow of openTelemetry as options', async () => {
    const { telemetry, exported } = setUp();
    const limited = rateLimit({ limits, address: () => '203.0.113.7', ...telemetry });
    const handle = limited(() => new Response('hello'));
    const calls: Awaited<ReturnType<typeof traced>>[] = [];
    for (let call = 0; call < 3; call++) {
      calls.push(await traced(() => handle(new Request('http://localhost/'))));
    }
    expect(calls.map(({ attributes }) => attributes['sluice.outcome'])).toEqual([
      'allowed',
      'allowed',
      'denied',
    ]);
    // A shadow limit adds an event and does not replace the attributes of the enforced limit.
    expect(calls.map(({ attributes }) => attributes['sluice.policy'])).toEqual([
      'api',
      'api',
      'api',
    ]);
    expect(calls.map(({ events }) => events.map(([name]) => name))).toEqual([
      [],
      ['sluice.shadow_denied'],
      ['sluice.denied'],
    ]);
    expect((await exported())['sluice.decisions'].points).toEqual([
      [of('api', 'allowed'), 2],
      [of('planned', 'shadow_allowed'), 1],
      [of('planned', 'shadow_denied'), 1],
      [of('api', 'denied'), 1],
    ]);
  });

  it('the span of a Fastify request has the decision', async () => {
    const { telemetry } = setUp();
    const app = fastify();
    app.addHook('onRequest', (_request, reply, done) => {
      tracer.startActiveSpan('request', (span) => {
        reply.raw.once('finish', () => span.end());
        done();
      });
    });
    await app.register(fastifyLimit, { limit: 1, window: '1h', name: 'api', ...telemetry });
    app.get('/', async () => 'hello');
    for (let call = 0; call < 2; call++) await app.inject('/');
    await app.close();
    expect(spans.getFinishedSpans().map(({ attributes }) => attributes['sluice.outcome'])).toEqual([
      'allowed',
      'denied',
    ]);
  });
});

it('openTelemetry rejects unknown and invalid options', () => {
  for (const options of [{ meter: 1 }, { meterProvider: {} }, { key: 'x' }]) {
    expect(() => openTelemetry(options as never)).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_OPTION' }),
    );
  }
});
