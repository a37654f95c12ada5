/**
 * An empty limiter with the interface that event-loop.mjs needs. It creates one small object per
 * decision and waiter. Its figures are the overhead of Node.js and of the measurement itself.
 */
export const systemClock = {
  now: () => Date.now(),
  schedule(delayMs, wake) {
    const timer = setTimeout(wake, delayMs);
    return () => clearTimeout(timer);
  },
};

export const memoryStore = () => ({});

export function createLimiter() {
  const waiters = [];
  const decide = (policy, key) => ({
    allowed: true,
    receipt: { charges: [{ policy, key, cost: 1, atMs: Date.now() }] },
  });
  const nothing = () => {};
  return {
    checkSync: decide,
    peekSync: decide,
    refundSync: nothing,
    settleSync: nothing,
    resetSync: nothing,
    inspectSync: nothing,
    acquire: (policy, key) =>
      new Promise((resolve, reject) => waiters.push({ policy, key, resolve, reject })),
    async close() {
      for (let place = 0; place < waiters.length; place++) {
        waiters[place].resolve({ allowed: true });
        if (place % 128 === 127) await new Promise((next) => setImmediate(next));
      }
    },
  };
}
