import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import * as engine from '../src/engine.ts';
import * as failure from '../src/failure/index.ts';
import * as http from '../src/http/index.ts';
import * as core from '../src/index.ts';
import * as llm from '../src/llm/index.ts';
import * as otel from '../src/otel/index.ts';
import * as redis from '../src/stores/redis/index.ts';
import * as testing from '../src/testing/index.ts';

/** Returns the exported types and values of a file. Throws if it has other statements. */
function listed(path: string): { types: string[]; values: string[] } {
  const types: string[] = [];
  const values: string[] = [];
  const list = /export (type )?\{([^}]*)\} from '[^']+';/g;
  const text = readFileSync(new URL(path, import.meta.url), 'utf8');
  const rest = text.replace(list, (_, allTypes: string | undefined, names: string) => {
    for (const entry of names.split(',').map((name) => name.trim())) {
      if (entry === '') continue;
      const [, type, name] = entry.match(/^(type )?(?:\w+ as )?(\w+)$/) ?? [];
      if (!name) throw new Error(`${path} exports ${entry}, which has no plain name`);
      (allTypes || type ? types : values).push(name);
    }
    return '';
  });
  // A star or a declaration would export names that no list shows.
  expect(rest.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '').trim()).toBe('');
  return { types: types.sort(), values: values.sort() };
}

const namesOf = (module: object) => Object.keys(module).sort();

describe('sluice', () => {
  test('sluice exports exactly the listed values', () => {
    expect(namesOf(core)).toMatchInlineSnapshot(`
      [
        "ManualClock",
        "SluiceError",
        "createLimiter",
        "definePolicy",
        "joinKey",
        "memoryStore",
        "systemClock",
      ]
    `);
    expect(listed('../src/index.ts').values).toEqual(namesOf(core));
  });

  test('sluice exports exactly the listed types', () => {
    expect(listed('../src/index.ts').types).toMatchInlineSnapshot(`
      [
        "AcquireOptions",
        "Adjustment",
        "Admitted",
        "AlgorithmName",
        "BlockOptions",
        "BlockParams",
        "CallOptions",
        "Charge",
        "Check",
        "CheckResult",
        "Clock",
        "ConcurrencyPolicyOptions",
        "CostOptions",
        "Decision",
        "DecisionListener",
        "Degraded",
        "Denied",
        "Duration",
        "ErrorCode",
        "ErrorCodes",
        "FailureAction",
        "Hold",
        "Key",
        "KeyState",
        "Limit",
        "LimitDecision",
        "LimitOfKey",
        "LimitParams",
        "LimitRequest",
        "Limiter",
        "LimiterOptions",
        "MemoryStoreOptions",
        "OperationOf",
        "PeekOptions",
        "Policies",
        "Policy",
        "PolicyInput",
        "PolicyOptions",
        "Receipt",
        "RunContext",
        "RunOptions",
        "RunResult",
        "Store",
        "StoreFeature",
        "SyncLimiter",
        "SyncPolicyTable",
        "SyncStore",
        "Warning",
        "WarningCode",
        "WarningCodes",
        "WindowAlgorithmName",
        "WindowPolicyOptions",
      ]
    `);
  });
});

describe('sluice/testing', () => {
  test('sluice/testing exports exactly the listed values', () => {
    expect(namesOf(testing)).toMatchInlineSnapshot(`
      [
        "adapterContract",
        "parseVectors",
        "runVectors",
        "storeContract",
      ]
    `);
    expect(listed('../src/testing/index.ts').values).toEqual(namesOf(testing));
  });

  test('sluice/testing exports exactly the listed types', () => {
    expect(listed('../src/testing/index.ts').types).toMatchInlineSnapshot(`
      [
        "AdapterCase",
        "AdapterUnderTest",
        "ContractCase",
        "RunningServer",
        "VectorCase",
        "VectorDifference",
        "VectorFile",
        "VectorReport",
        "VectorStep",
      ]
    `);
  });
});

describe('sluice/redis', () => {
  test('sluice/redis exports exactly the listed values', () => {
    expect(namesOf(redis)).toMatchInlineSnapshot(`
      [
        "redisStore",
      ]
    `);
    expect(listed('../src/stores/redis/index.ts').values).toEqual(namesOf(redis));
  });

  test('sluice/redis exports exactly the listed types', () => {
    expect(listed('../src/stores/redis/index.ts').types).toMatchInlineSnapshot(`
      [
        "DenyCacheOptions",
        "GlideLike",
        "IoredisLike",
        "NodeRedisLike",
        "RedisClient",
        "RedisStoreOptions",
        "RedisWarning",
        "Send",
        "Subscribe",
      ]
    `);
  });
});

describe('sluice/failure', () => {
  test('sluice/failure exports exactly the listed values', () => {
    expect(namesOf(failure)).toMatchInlineSnapshot(`
      [
        "withFailurePolicy",
      ]
    `);
    expect(listed('../src/failure/index.ts').values).toEqual(namesOf(failure));
  });

  test('sluice/failure exports exactly the listed types', () => {
    expect(listed('../src/failure/index.ts').types).toMatchInlineSnapshot(`
      [
        "BreakerState",
        "FailureOptions",
        "GuardedStore",
      ]
    `);
  });
});

describe('sluice/engine', () => {
  test('sluice/engine exports exactly the listed values', () => {
    expect(namesOf(engine)).toMatchInlineSnapshot(`
      [
        "DURATION",
        "DecisionRecord",
        "FAILURE_ACTIONS",
        "KeyedHash",
        "MAX_KEY_LENGTH",
        "MAX_LIMITS",
        "MAX_WINDOW_MS",
        "PeekRecord",
        "PolicyRegistry",
        "SingleLimitHeaders",
        "algorithmInfo",
        "algorithmNames",
        "checkAction",
        "checkDuration",
        "closestName",
        "countText",
        "decideBySubmit",
        "describeKey",
        "didYouMean",
        "durationCode",
        "durationMs",
        "durationText",
        "expected",
        "headerReport",
        "isConcurrency",
        "isInteger",
        "isRecord",
        "jointDecision",
        "keyText",
        "normalizeKey",
        "optionOf",
        "refundOf",
        "windowAlgorithmNames",
        "windowText",
      ]
    `);
    expect(listed('../src/engine.ts').values).toEqual(namesOf(engine));
  });

  test('sluice/engine exports exactly the listed types', () => {
    expect(listed('../src/engine.ts').types).toMatchInlineSnapshot(`
      [
        "AlgorithmInfo",
        "CostFields",
        "CountedWindow",
        "DescribedState",
        "EntriesDescription",
        "KeyDescription",
        "LevelDescription",
        "LogEntry",
        "OnSent",
        "Recipient",
        "SentCommand",
        "WindowsDescription",
      ]
    `);
  });
});

describe('sluice/http', () => {
  test('sluice/http exports exactly the listed values', () => {
    expect(namesOf(http)).toMatchInlineSnapshot(`
      [
        "RequestLimiter",
        "UNKNOWN_CLIENT",
        "addressKey",
        "clientAddress",
        "headerForms",
        "limitFetch",
        "parseRateLimit",
        "rejection",
        "retryAfter",
      ]
    `);
    expect(listed('../src/http/index.ts').values).toEqual(namesOf(http));
  });

  test('sluice/http exports exactly the listed types', () => {
    expect(listed('../src/http/index.ts').types).toMatchInlineSnapshot(`
      [
        "AddressOptions",
        "AddressReader",
        "AddressWarning",
        "ConcurrencyLimit",
        "ExpressRateLimitOptions",
        "ForwardedHeader",
        "Header",
        "HeaderForm",
        "HeaderKey",
        "HeaderReport",
        "KeySource",
        "LimitFetchOptions",
        "LimitReport",
        "ParsedRateLimit",
        "PolicyLimit",
        "Rejection",
        "RequestDecision",
        "RequestInfo",
        "RequestLimit",
        "RequestOptions",
        "ResponseOutcome",
      ]
    `);
  });
});

describe('sluice/llm', () => {
  test('sluice/llm exports exactly the listed values', () => {
    expect(namesOf(llm)).toEqual(['llmFetch']);
    expect(listed('../src/llm/index.ts').values).toEqual(namesOf(llm));
  });

  test('sluice/llm exports exactly the listed types', () => {
    expect(listed('../src/llm/index.ts').types).toMatchInlineSnapshot(`
      [
        "CallLimit",
        "CallSettlement",
        "Costs",
        "Ending",
        "Endpoint",
        "Fetch",
        "LlmFetchOptions",
        "ModelCall",
        "ModelOptions",
        "ModelTable",
        "TokenBound",
        "TokenEstimate",
        "Unit",
        "Usage",
      ]
    `);
  });
});

describe('adapters', () => {
  test.each(['express', 'fastify', 'fetch', 'hono', 'koa', 'node'])(
    'sluice/%s exports rateLimit',
    async (name) => {
      const adapter = (await import(`../src/adapters/${name}.ts`)) as object;
      expect(namesOf(adapter).filter((each) => each === 'rateLimit')).toEqual(['rateLimit']);
    },
  );

  test('sluice/otel exports openTelemetry', () => {
    expect(namesOf(otel)).toEqual(['openTelemetry']);
  });

  test('sluice/nest exports its module and guard', async () => {
    expect(namesOf(await import('../src/adapters/nest.ts'))).toEqual([
      'RateLimit',
      'RateLimitGuard',
      'RateLimitModule',
      'SkipRateLimit',
    ]);
  });
});
