/** Sets up one key of one policy, for worked examples. Times are ms after a round minute. */
import { createLimiter, ManualClock, type PolicyOptions } from '../../src/index.ts';

const MINUTE_MS = 1_745_000_100_000;

export function oneKey(policy: PolicyOptions) {
  const clock = new ManualClock(MINUTE_MS);
  const limiter = createLimiter({ policies: { p: policy }, clock });
  const at = (ms: number): typeof limiter => {
    clock.set(MINUTE_MS + ms);
    return limiter;
  };
  return {
    entries: (ms: number) =>
      at(ms)
        .inspectSync('p', 'k')
        ?.entries?.map(({ atMs }) => atMs - MINUTE_MS),
    check: (ms: number, cost = 1) => at(ms).checkSync('p', 'k', { cost }),
    peek: (ms: number, cost = 0) => at(ms).peekSync('p', 'k', { cost }),
    refund: (ms: number, decision: ReturnType<typeof limiter.checkSync>) => {
      if (!decision.allowed) throw new Error('expected an admitted decision');
      return at(ms).refundSync(decision.receipt);
    },
    settle: (ms: number, decision: ReturnType<typeof limiter.checkSync>, actual: number) => {
      if (!decision.allowed) throw new Error('expected an admitted decision');
      return at(ms).settleSync(decision.receipt, actual);
    },
  };
}
