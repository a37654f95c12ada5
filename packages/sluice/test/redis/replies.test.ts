/**
 * Every kind of failure at every reply of a session: the caller is told something true each time,
 * and nobody is admitted whom Redis does not know of.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { redisStore, type Send } from '../../src/stores/redis/index.ts';
import { expectNoUnhandledRejections } from '../rejections.ts';
import { newPrefix, useRedis } from './campaign.ts';
import { KEYS, LIMITS, limiterOn, nameOf, type Outcome, runSession } from './session.ts';

expectNoUnhandledRejections();
const world = useRedis();

/** What a fault does to a command: `real` sends it. */
type Fault = (real: () => Promise<unknown>) => Promise<unknown>;

const fails =
  (message: string): Fault =>
  () =>
    Promise.reject(new Error(message));

/** Redis says that it has not done it, and has not. */
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

/** Not repeated, because it would not help, or because it may have been done. */
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
    'an answer that never comes',
    async (real) => {
      await real();
      return new Promise(() => {});
    },
  ],
  [
    'an answer that comes too late',
    async (real) => {
      const reply = await real();
      await sleep(1000);
      return reply;
    },
  ],
  ['a reply of nothing', reshaped(() => null)],
  ['a reply of text', reshaped(() => 'OK')],
  ['a reply of a number', reshaped(() => 0)],
  ['an empty reply', reshaped(() => [])],
  ['a reply without its end', reshaped((reply) => reply.slice(0, -2))],
  ['a reply of nothing but the time', reshaped((reply) => reply.slice(0, 1))],
  ['a reply of objects', reshaped(([now, ...rest]) => [now, ...rest.map((each) => ({ each }))])],
  ['a reply of nulls', reshaped(([now, ...rest]) => [now, ...rest.map(() => null)])],
  ['a reply of fractions', reshaped(([now, ...rest]) => [now, ...rest.map(() => '0.5')])],
];

/** A session in which the commands from `first` to `last` meet a fault; counts what was sent. */
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

/** What Redis holds after a session, asked without any faults in between. */
async function charged(prefix: string): Promise<Map<string, number>> {
  const store = redisStore(world.send, { prefix, onFailure: 'throw', deadlineMs: 10_000 });
  const limiter = limiterOn(store);
  const states = KEYS.map(async ([policy, key]) => {
    const state = await limiter.inspect(policy, key);
    return [nameOf(policy, key), state?.used ?? 0] as const;
  });
  return new Map(await Promise.all(states));
}

/** Admitted <= charged <= limit, for each key. */
async function expectSound({ owed, untyped }: Outcome, prefix: string): Promise<void> {
  expect(untyped).toEqual([]);
  const held = await charged(prefix);
  for (const [policy, key] of KEYS) {
    const name = nameOf(policy, key);
    expect([name, held.get(name)! >= (owed.get(name) ?? 0)]).toEqual([name, true]);
    expect([name, held.get(name)! <= LIMITS[policy]]).toEqual([name, true]);
  }
}

const PATIENT_MS = 10_000;

/** The session without faults: what it says, and how many commands that takes. */
async function flawless() {
  // Once before, so that Redis knows the script.
  await sessionWith((real) => real(), 1, 0, PATIENT_MS);
  const { outcome, prefix, sent } = await sessionWith((real) => real(), 1, 0, PATIENT_MS);
  expect([outcome.degraded, outcome.failed]).toEqual([0, 0]);
  await expectSound(outcome, prefix);
  return { answers: outcome.answers, sent, held: await charged(prefix) };
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

it('a session without faults has a command a question, and always the same answers', async () => {
  const { answers, sent } = await flawless();
  expect(sent).toBe(answers.length);
  expect(answers.length).toBeGreaterThanOrEqual(12);
  expect((await flawless()).answers).toEqual(answers);
});

describe('what Redis says it has not done is asked once more, and nobody notices', () => {
  it.each(NOT_DONE)('%s at every reply', async (_kind, fault) => {
    const { answers, sent, held } = await flawless();
    await Promise.all(
      upTo(sent).map(async (at) => {
        const session = await sessionWith(fault, at, at, PATIENT_MS);
        expect(session.outcome.answers).toEqual(answers);
        expect(session.sent).toBe(sent + 1);
        expect(await charged(session.prefix)).toEqual(held);
      }),
    );
  });

  // A script that is missing is sent whole, so it takes more than two of these.
  it.each(NOT_DONE.slice(1))(
    '%s twice in a row is told, and nothing was done',
    async (_kind, fault) => {
      const { sent } = await flawless();
      await Promise.all(
        upTo(sent).map(async (at) => {
          const { outcome, prefix } = await sessionWith(fault, at, at + 1, PATIENT_MS);
          expect(outcome.degraded + outcome.failed).toBe(1);
          await expectSound(outcome, prefix);
        }),
      );
    },
  );

  it('a refund that was refused twice can be tried again', async () => {
    let refusals = 0;
    const send: Send = (args, key) =>
      refusals-- > 0 ? Promise.reject(new Error('LOADING wait')) : world.send(args, key);
    const store = redisStore(send, { prefix: newPrefix(), deadlineMs: PATIENT_MS });
    const limiter = limiterOn(store);
    const { receipt } = await limiter.check('p', 'a', { cost: 3 });
    refusals = 2;
    await expect(limiter.refund(receipt!)).rejects.toMatchObject({ code: 'ERR_STORE_UNAVAILABLE' });
    expect(await limiter.refund(receipt!)).toBe(3);
    expect(await limiter.refund(receipt!)).toBe(0);
  });

  it('what is refused too late to be in time is not asked for again', async () => {
    const asked: string[] = [];
    const send: Send = async (args) => {
      asked.push(args[0]);
      await sleep(30);
      throw new Error('LOADING Redis is loading the dataset in memory');
    };
    const store = redisStore(send, { prefix: newPrefix(), onFailure: 'local', deadlineMs: 20 });
    const limiter = limiterOn(store);
    // On a busy machine the refusal may be heard before the deadline is.
    expect((await limiter.check('p', 'a')).degraded!.reason).toMatch(/timeout|error/);
    // By then it would have been sent again, and charged here and there.
    await sleep(100);
    expect(asked.filter((name) => name.startsWith('EVAL'))).toHaveLength(1);
  });
});

describe('what may have been done, or would fail again, is told', () => {
  it.each(FINAL)('%s at every reply', async (kind, fault) => {
    const { sent } = await flawless();
    const isSlow = kind.startsWith('an answer');
    await Promise.all(
      upTo(sent).map(async (at) => {
        const { outcome, prefix } = await sessionWith(fault, at, at, isSlow ? 40 : PATIENT_MS);
        expect(outcome.degraded + outcome.failed).toBeGreaterThanOrEqual(1);
        if (!isSlow) expect(outcome.degraded + outcome.failed).toBe(1);
        await expectSound(outcome, prefix);
      }),
    );
  });

  it.each(FINAL)('%s from any reply on', async (kind, fault) => {
    const { sent } = await flawless();
    const deadlineMs = kind.startsWith('an answer') ? 40 : PATIENT_MS;
    await Promise.all(
      upTo(sent).map(async (at) => {
        const { outcome, prefix } = await sessionWith(fault, at, 1e6, deadlineMs);
        expect(outcome.degraded + outcome.failed).toBeGreaterThanOrEqual(1);
        await expectSound(outcome, prefix);
      }),
    );
  });
});
