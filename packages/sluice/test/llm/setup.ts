/** A limiter with one policy for each unit, and a `llmFetch` that records its settlements. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { createLimiter, ManualClock } from '../../src/index.ts';
import { type CallSettlement, type LlmFetchOptions, llmFetch } from '../../src/llm/index.ts';

export const LIMITS = { requests: 1000, tokens: 1_000_000, money: 1_000_000_000, inFlight: 8 };

export const MODELS = {
  'gpt-4o': { input: 2.5, output: 10, cachedInput: 1.25, maxOutputTokens: 4096 },
  claude: { input: 3, output: 15, cachedInput: 0.3, cacheWrite: 3.75 },
};

type Options = Omit<LlmFetchOptions<ReturnType<typeof policiesOf>>, 'requests' | 'tokens'>;

const policiesOf = (limits: typeof LIMITS) => ({
  requests: { limit: limits.requests, window: '1h' } as const,
  tokens: { limit: limits.tokens, window: '1h' } as const,
  money: { limit: limits.money, window: '1h' } as const,
  inFlight: { concurrency: limits.inFlight, lease: '30s' } as const,
});

export function setUp(options: Options = {}, given: Partial<typeof LIMITS> = {}) {
  const limits = { ...LIMITS, ...given };
  const policies = policiesOf(limits);
  const clock = new ManualClock(1_745_000_100_000);
  const limiter = createLimiter({ policies, clock });
  const settled: CallSettlement[] = [];
  const call = llmFetch(limiter, {
    requests: { policy: 'requests', key: 'k' },
    tokens: { policy: 'tokens', key: 'k' },
    money: { policy: 'money', key: 'k' },
    slot: { policy: 'inFlight', key: 'k' },
    models: MODELS,
    clock,
    onSettled: (settlement) => settled.push(settlement),
    ...options,
  });
  /** The cost that counts against each limit. */
  const used = () => ({
    requests: limits.requests - limiter.peekSync('requests', 'k').remaining,
    tokens: limiter.inspectSync('tokens', 'k')?.used ?? 0,
    money: limiter.inspectSync('money', 'k')?.used ?? 0,
    slots: limiter.inspectSync('inFlight', 'k')?.used ?? 0,
  });
  return { clock, limiter, call, settled, used };
}

/** A request as an SDK sends it. */
export const post = (body: object, init: RequestInit = {}): RequestInit => ({
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(body),
  ...init,
});

export const chat = (more: object = {}) => ({
  model: 'gpt-4o',
  messages: [{ role: 'user', content: 'Hello' }],
  max_tokens: 500,
  ...more,
});

/** Resolves after a few turns of the event loop, when calls that could proceed have done so. */
export async function turns(count = 10): Promise<void> {
  for (let turn = 0; turn < count; turn++) await nextTurn();
}

/** Resolves when `condition` holds, which takes a few turns of the event loop. */
export async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error('The condition did not hold within 10 s');
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}
