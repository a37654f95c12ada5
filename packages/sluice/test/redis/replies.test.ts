/**
 * Every kind of failure at every reply of a session. Each result that the caller gets is correct,
 * and Redis has charged every admitted call.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { redisStore, type Send } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { newPrefix, useRedis } from './campaign.ts';
import { KEYS, LIMITS, limiterOn, nameOf, type Outcome, runSession } from './session.ts';

expectNoUnhandledRejections();
const world = useRedis();

/** Replaces the reply to a command. `real` sends the command. */
type Fault = (real: () => Promise<unknown>) => Promise<unknown>;

const fails =
  (message: string): Fault =>
  () =>
    Promise.reject(new Error(message));

/** Errors of Redis for commands that it did not execute. */
const NOT_DONE = [
  'NOSCRIPT No matching script. Please use EVAL.',
  "READONLY You can't write against a read only replica.",
  'LOADING Redis is loading the dataset in memory',
  'CLUSTERDOWN The cluster is down',
  'MOVED 3999 127.0.0.1:6381',
  'ASK 3999 127.0.0.1:6381',
  'TRYAGAIN Multiple keys request during rehashing of slot',
  'NOREPLICAS Not enough good replicas to write.',
  "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
].map((message) => [message.split(' ')[0], fails(message)] as const);

const reshaped =
  (change: (reply: unknown[]) => unknown): Fault =>
  async (real) =>
    change((await real()) as unknown[]);

/** Failures without a retry: it would not help, or the command may have been executed. */
const FINAL: [kind: string, fault: Fault][] = [
  ['BUSY', fails('BUSY Redis is busy running a script.')],
  ['OOM', fails("OOM command not allowed when used memory > 'maxmemory'.")],
  ['a connection lost before sending', fails("Stream isn't writeable")],
  [
    'a connection lost after sending',
    async (real) => {
      await real();
      throw new Error('Connection is closed.');
    },
  ],
  [
    'a missing reply',
    async (real) => {
      await real();
      return new Promise(() => {});
    },
  ],
  [
    'a late reply',
    async (real) => {
      const reply = await real();
      await sleep(1000);
      return reply;
    },
  ],
  ['a null reply', reshaped(() => null)],
  ['a text reply', reshaped(() => 'OK')],
  ['a numeric reply', reshaped(() => 0)],
  ['an empty reply', reshaped(() => [])],
  ['a truncated reply', reshaped((reply) => reply.slice(0, -2))],
  ['a reply with only the time', reshaped((reply) => reply.slice(0, 1))],
  ['a reply of objects', reshaped(([now, ...rest]) => [now, ...rest.map((each) => ({ each }))])],
  ['a reply of nulls', reshaped(([now, ...rest]) => [now, ...rest.map(() => null)])],
  ['a reply of fractions', reshaped(([now, ...rest]) => [now, ...rest.map(() => '0.5')])],
];

/** Runs a session with a fault in the commands from `first` to `last`, and counts commands. */
async function sessionWith(fault: Fault, first: number, last: number, deadlineMs: number) {
  const prefix = newPrefix();
  let sent = 0;
  const send: Send = (args, key) => {
    sent++;
    const real = () => world.send(args, key);
    return sent >= first && sent <= last ? fault(real) : real();
  };
  const store = redisStore(send, { prefix, onFailure: 'deny', deadlineMs });
  const outcome = await runSession(store);
  return { outcome, prefix, sent };
}

/** Returns what Redis has charged to each key, read without faults. */
async function charged(prefix: string): Promise<Map<string, number>> {
  const store = redisStore(world.send, { prefix, onFailure: 'throw', deadlineMs: 10_000 });
  const limiter = limiterOn(store);
  const states = KEYS.map(async ([policy, key]) => {
    const state = await limiter.inspect(policy, key);
    return [nameOf(policy, key), state?.used ?? 0] as const;
  });
  return new Map(await Promise.all(states));
}

/** Expects admitted <= charged <= limit, for each key. */
async function expectConsistent({ admitted, untyped }: Outcome, prefix: string): Promise<void> {
  expect(untyped).toEqual([]);
  const costs = await charged(prefix);
  for (const [policy, key] of KEYS) {
    const name = nameOf(policy, key);
    expect([name, costs.get(name)! >= (admitted.get(name) ?? 0)]).toEqual([name, true]);
    expect([name, costs.get(name)! <= LIMITS[policy]]).toEqual([name, true]);
  }
}

const LONG_DEADLINE_MS = 10_000;

/** Runs the session without faults. Returns its results, commands and charges. */
async function sessionWithoutFaults() {
  // The first run loads the script into Redis.
  await sessionWith((real) => real(), 1, 0, LONG_DEADLINE_MS);
  const { outcome, prefix, sent } = await sessionWith((real) => real(), 1, 0, LONG_DEADLINE_MS);
  expect([outcome.degraded, outcome.failed]).toEqual([0, 0]);
  await expectConsistent(outcome, prefix);
  return { results: outcome.results, sent, costs: await charged(prefix) };
}

const isSlowKind = (kind: string): boolean => ['a missing reply', 'a late reply'].includes(kind);

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

it('a session without faults sends one command per call and is deterministic', async () => {
  const { results, sent } = await sessionWithoutFaults();
  expect(sent).toBe(results.length);
  expect(results.length).toBeGreaterThanOrEqual(12);
  expect((await sessionWithoutFaults()).results).toEqual(results);
});

describe('commands that Redis did not execute are retried once', () => {
  it.each(NOT_DONE)(
    'a command rejected with %s is retried once, with the same results',
    async (_kind, fault) => {
      const { results, sent, costs } = await sessionWithoutFaults();
      await Promise.all(
        upTo(sent).map(async (at) => {
          const session = await sessionWith(fault, at, at, LONG_DEADLINE_MS);
          expect(session.outcome.results).toEqual(results);
          expect(session.sent).toBe(sent + 1);
          expect(await charged(session.prefix)).toEqual(costs);
        }),
      );
    },
  );

  // Without NOSCRIPT: after it the store sends the whole script, which is retried once more.
  it.each(NOT_DONE.slice(1))(
    'a command rejected twice with %s fails one call and keeps charges consistent',
    async (_kind, fault) => {
      const { sent } = await sessionWithoutFaults();
      await Promise.all(
        upTo(sent).map(async (at) => {
          const { outcome, prefix } = await sessionWith(fault, at, at + 1, LONG_DEADLINE_MS);
          expect(outcome.degraded + outcome.failed).toBe(1);
          await expectConsistent(outcome, prefix);
        }),
      );
    },
  );

  it('a refund that Redis rejected twice can be retried', async () => {
    let rejections = 0;
    const send: Send = (args, key) =>
      rejections-- > 0 ? Promise.reject(new Error('LOADING wait')) : world.send(args, key);
    const store = redisStore(send, { prefix: newPrefix(), deadlineMs: LONG_DEADLINE_MS });
    const limiter = limiterOn(store);
    const { receipt } = await limiter.check('p', 'a', { cost: 3 });
    rejections = 2;
    await expect(limiter.refund(receipt!)).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(await limiter.refund(receipt!)).toBe(3);
    expect(await limiter.refund(receipt!)).toBe(0);
  });

  it('a command that is rejected after its deadline is not retried', async () => {
    const commands: string[] = [];
    const send: Send = async (args) => {
      commands.push(args[0]);
      await sleep(30);
      throw new Error('LOADING Redis is loading the dataset in memory');
    };
    const store = redisStore(send, { prefix: newPrefix(), onFailure: 'local', deadlineMs: 20 });
    const limiter = limiterOn(store);
    // On a busy machine the error may be handled before the deadline.
    expect((await limiter.check('p', 'a')).degraded!.reason).toMatch(/timeout|error/);
    // By now a retry would have been sent.
    await sleep(100);
    expect(commands.filter((name) => name.startsWith('EVAL'))).toHaveLength(1);
  });
});

describe('commands that may have been executed are not retried', () => {
  it.each(FINAL)(
    '%s at any one command fails the call and keeps charges consistent',
    async (kind, fault) => {
      const { sent } = await sessionWithoutFaults();
      const isSlow = isSlowKind(kind);
      await Promise.all(
        upTo(sent).map(async (at) => {
          const { outcome, prefix } = await sessionWith(
            fault,
            at,
            at,
            isSlow ? 40 : LONG_DEADLINE_MS,
          );
          expect(outcome.degraded + outcome.failed).toBeGreaterThanOrEqual(1);
          if (!isSlow) expect(outcome.degraded + outcome.failed).toBe(1);
          await expectConsistent(outcome, prefix);
        }),
      );
    },
  );

  it.each(FINAL)(
    '%s at any command and all later ones keeps charges consistent',
    async (kind, fault) => {
      const { sent } = await sessionWithoutFaults();
      const deadlineMs = isSlowKind(kind) ? 40 : LONG_DEADLINE_MS;
      await Promise.all(
        upTo(sent).map(async (at) => {
          const { outcome, prefix } = await sessionWith(fault, at, 1e6, deadlineMs);
          expect(outcome.degraded + outcome.failed).toBeGreaterThanOrEqual(1);
          await expectConsistent(outcome, prefix);
        }),
      );
    },
  );
});
