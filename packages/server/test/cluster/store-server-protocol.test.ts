/** Protocol violations between the store process and its clients. */
import { once } from 'node:events';
import { duplexPair } from 'node:stream';
import { createLimiter, definePolicy } from 'sluice';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { MAX_WAITING_CHARACTERS, RemoteStore } from '../../src/cluster/remote-store.ts';
import { StoreServerProcess } from './store-server-process.ts';

let server: StoreServerProcess;
beforeAll(async () => {
  server = await StoreServerProcess.start();
});
afterAll(() => server.stop());

describe('RemoteStore and replies of the store process', () => {
  const policy = definePolicy('p', '5/1h');
  const adjustment = {
    ...{ policy, params: policy.params!, delta: -1 },
    charge: { policy: 'p', key: 'k', cost: 1, atMs: 1000 },
  };
  const state = { policy: 'p', algorithm: 'sliding-log', used: 1, remaining: 4 };
  const whole = { ...state, resetAfterMs: 1, cells: [0, 0, null], entries: [], entryCount: 0 };

  /** Resolves to the result of an operation that the store process replies to with `values`. */
  async function replied<T>(values: readonly unknown[], call: (store: RemoteStore) => Promise<T>) {
    const [mine, theirs] = duplexPair();
    const store = new RemoteStore(mine);
    theirs.once('data', () => theirs.write(`${JSON.stringify(values)}\n`));
    const result = await call(store).then(
      (value) => ({ value, guaranteedKeys: store.guaranteedKeys }),
      (error) => ({ code: error.code }),
    );
    await store.close();
    return result;
  }

  const settle = (store: RemoteStore) => store.adjustOnce('r', [adjustment, adjustment]);
  const inspect = (store: RemoteStore) => store.inspect(policy, policy.params!, 'k');

  test('the remote store accepts valid replies of the store process', async () => {
    expect(await replied([1, 0, 0, null, 0], settle)).toEqual({});
    expect(await replied([1, 0, 0, 50, 1, -1, 2], settle)).toEqual({
      value: [-1, 2],
      guaranteedKeys: 50,
    });
    expect(await replied([1, 0, 0, 50, { ...whole, entryCount: 9 }], inspect)).toMatchObject({
      value: { entryCount: 9, cells: [0, 0, Number.NaN] },
    });
  });

  test.each([
    ['guaranteed keys below 0', [1, 0, 0, -1, 0], settle],
    ['guaranteed keys that are text', [1, 0, 0, '5', 0], settle],
    ['missing guaranteed keys', [1, 0, 0], settle],
    ['neither 0 nor 1 for a receipt', [1, 0, 0, 5, 2, -1, 2], settle],
    ['too few changes', [1, 0, 0, 5, 1, -1], settle],
    ['fractional changes', [1, 0, 0, 5, 1, -1, 0.5], settle],
    ['null for a state', [1, 0, 0, 5, null], inspect],
    ['a state without a count of entries', [1, 0, 0, 5, { ...whole, entryCount: 1.5 }], inspect],
    ['more entries than their count', [1, 0, 0, 5, { ...whole, entries: [{}] }], inspect],
    ['holds that are no list', [1, 0, 0, 5, { ...whole, holds: 1 }], inspect],
    ['a block that ends at a text', [1, 0, 0, 5, { ...whole, blockedUntilMs: '1' }], inspect],
    ['a state without cells', [1, 0, 0, 5, { ...whole, cells: 1 }], inspect],
  ] as const)('the remote store rejects a reply with %s', async (_description, values, call) => {
    const result = await replied(values, call as (store: RemoteStore) => Promise<unknown>);
    expect(result).toEqual({ code: 'ERR_STORE_UNAVAILABLE' });
  });
});

test('the remote store bounds operations in flight by the length of their lines', async () => {
  const [mine, theirs] = duplexPair();
  theirs.pause();
  const store = new RemoteStore(mine);
  const policy = definePolicy('p', '5/1h');
  const limits = Array.from({ length: 64 }, (_, at) => ({
    ...{ policy, params: policy.params!, cost: 1 },
    key: `${at}`.padEnd(1024, 'x'),
  }));
  let rejected = 0;
  let sent = 0;
  // Each turn sends 6 MB of keys, which are not read.
  while (rejected === 0) {
    for (let call = 0; call < 100; call++) {
      store.decide([{ limits, peek: false }]).catch(({ message }) => {
        if (message.includes('too many operations are in flight')) rejected++;
      });
    }
    await new Promise(setImmediate);
    expect(++sent).toBeLessThan(10);
  }
  expect(mine.writableLength).toBeLessThan(2 * MAX_WAITING_CHARACTERS);
  await store.close();
});

describe('StoreServer', () => {
  const DEFINE = '0,0,"p","sliding-log",1000,16,5';
  const GARBAGE: readonly (string | Buffer)[] = [
    'garbage\n',
    '{}\n',
    'null\n',
    '[',
    '[99]\n',
    '[-1]\n',
    '["2"]\n',
    '[2]\n',
    '[2,1]\n',
    '[2,1,0,5,5,"a",1]\n',
    '[0,0,"p","no algorithm",1000,16,5]\n',
    '[0,1,"p","sliding-log",1000,16,5]\n',
    '[0,0,"p","sliding-log",0,16,5]\n',
    '[0,0,"p","sliding-log",1000,16,5,2,65]\n',
    '[0,0,"p","sliding-log",1000,16,5,2,1,0,5,5,"a",1.5]\n',
    '[0,0,"p","sliding-log",1000,16,5,2,1,0,5,5,"a",null]\n',
    '[0,0,"p","sliding-log",1000,16,5,2,1,0,5,5,{"toString":1},1]\n',
    '[0,0,"p","sliding-log",1000,16,5,2,1,0,1e99,5,"a",1]\n',
    '[0,0,"p","sliding-log",1000,16,5,2,1,"__proto__",5,5,"a",1]\n',
    '[1,-5]\n',
    '[8]\n',
    '[8,"r"]\n',
    '[8,"r",-1]\n',
    '[8,"r",1]\n',
    '[8,1,0]\n',
    '[8,null,0]\n',
    `[${DEFINE},8,"r",65]\n`,
    `[${DEFINE},8,"r",1e9]\n`,
    `[${DEFINE},8,"r",2,0,5,5,"a",1,1000,-1]\n`,
    `[${DEFINE},8,"r",1,1,5,5,"a",1,1000,-1]\n`,
    `[${DEFINE},8,"r",1,0,5,5,"a",1,-1,-1]\n`,
    `[${DEFINE},8,"r",1,0,5,5,"a",1,1000,0.5]\n`,
    `[${DEFINE},8,"r",1,0,5,5,["a"],1,1000,-1]\n`,
    `[${DEFINE},8,["r"],1,0,5,5,"a",1,1000,-1]\n`,
    '[9,0,"a",1000]\n',
    `[${DEFINE},9,0,"a",1000]\n`,
    '[10,0,"p","sliding-log",1000,16,5]\n',
    '[10,0,"p","sliding-log",1000,16,5,0,1,1000,1000]\n',
    '[10,0,"p","sliding-log",1000,16,5,1000,1,1000,1000,9,0,"a",-1]\n',
    '[11,5]\n',
    '[0,0,"p","concurrency",1000,16,5,5,0,5,5,"a",1,1000,-1]\n',
    '[0,0,"p","concurrency",1000,16,5,5,0,5,5,"a",1,1000,-1,7,2]\n',
    `${'['.repeat(100_000)}\n`,
    Buffer.from([0xff, 0xfe, 0, 10, 13, 10]),
  ];

  test.each(GARBAGE)(
    'the store server closes a channel that sends %j, and serves the others',
    async (garbage) => {
      const store = await server.store('shared');
      const limiter = createLimiter({ policies: { others: '1000/1h' }, store });
      const before = (await limiter.peek('others', 'a')).remaining;
      const seen = server.violations.length;
      const channel = await server.channel('shared');
      channel.on('error', () => {});
      channel.resume();
      const closed = once(channel, 'close');
      // Operations after the violation are not run.
      const charge = '[0,0,"others","sliding-log",3600000,60000,1000,2,1,0,1000,1000,"a",1]\n';
      channel.write(Buffer.concat([Buffer.from(garbage), Buffer.from(charge)]));
      await closed;
      await vi.waitUntil(() => server.violations.length === seen + 1);
      expect((await limiter.check('others', 'a')).remaining).toBe(before - 1);
      await store.close();
    },
  );

  test('the store server runs no operation of an invalid line', async () => {
    const store = await server.store('shared');
    const limiter = createLimiter({ policies: { halves: '10/1h' }, store });
    const channel = await server.channel('shared');
    channel.on('error', () => {});
    const closed = once(channel.resume(), 'close');
    const valid = '0,0,"halves","sliding-log",3600000,60000,10,2,1,0,10,10,"a",1';
    channel.write(`[${valid},2,1,0,10,10,"a"]\n`);
    await closed;
    expect((await limiter.peek('halves', 'a')).remaining).toBe(10);
    await store.close();
  });

  test('the store server reads lines that arrive byte by byte', async () => {
    const channel = await server.channel('shared');
    channel.setNoDelay(true);
    const line =
      '[0,0,"pieces","sliding-log",3600000,60000,10,2,1,0,10,10,"\u00e9\u20ac\ud83d\ude00",1]\n';
    for (const byte of Buffer.from(line)) {
      channel.write(Buffer.from([byte]));
      await new Promise(setImmediate);
    }
    const [reply] = await once(channel, 'data');
    expect(JSON.parse(String(reply)).slice(4)).toEqual([0, 9, 3_600_000, 0]);
    channel.destroy();
  });
});
