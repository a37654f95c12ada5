import { EventEmitter } from 'node:events';
import { describe, expect, test, vi } from 'vitest';
import { type Port, RpcChannel } from '../../src/cluster/rpc-channel.ts';
import { wordOf } from '../../src/cluster/shared-state.ts';

class TestPort extends EventEmitter implements Port {
  readonly sent: unknown[] = [];
  other: TestPort | undefined = undefined;
  error: Error | null = null;

  send(message: unknown, done: (error: Error | null) => void): void {
    this.sent.push(message);
    const copy = JSON.parse(JSON.stringify(message));
    queueMicrotask(() => {
      if (this.error === null) this.other?.emit('message', copy);
      done(this.error);
    });
  }
}

function pair(): [RpcChannel, RpcChannel, TestPort, TestPort] {
  const [left, right] = [new TestPort(), new TestPort()];
  left.other = right;
  right.other = left;
  return [new RpcChannel(left), new RpcChannel(right), left, right];
}

const GARBAGE: readonly unknown[] = [
  null,
  undefined,
  'text',
  12,
  [],
  {},
  { kind: 'ask' },
  { kind: 'ask', id: {}, question: {} },
  { kind: 'ask', id: 1, question: '__proto__' },
  { kind: 'ask', id: 1, question: 'constructor', body: {} },
  { kind: 'answer' },
  { kind: 'answer', id: '__proto__', body: 1 },
  { kind: 'answer', id: 99, body: 1 },
  { kind: 'error', id: 99 },
  { kind: 'error', id: 0.5, body: 'text' },
  { kind: 'connection', door: 'http' },
];

describe('a dialogue', () => {
  test('brings answers and errors back to whoever asked', async () => {
    const [left, right] = pair();
    right.answer('double', (body) => 2 * (body as number));
    right.answer('fail', () => {
      throw Object.assign(new Error('no'), { code: 'ENO' });
    });
    expect(await Promise.all([1, 2, 3].map((each) => left.ask('double', each, 1000)))).toEqual([
      2, 4, 6,
    ]);
    await expect(left.ask('fail', 1, 1000)).rejects.toMatchObject({ message: 'no', code: 'ENO' });
    await expect(left.ask('unknown', 1, 1000)).rejects.toThrow('Nobody answers unknown');
  });

  test('ends a wait when its time is up, and takes no late answer', async () => {
    vi.useFakeTimers();
    try {
      const [left, right] = pair();
      right.answer('never', () => new Promise(() => {}));
      const asked = left.ask('never', 1, 500);
      const late = expect(asked).rejects.toThrow('No answer to never in time');
      await vi.advanceTimersByTimeAsync(501);
      await late;
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  test('tells whoever waits when the other side is gone, and whoever asks later', async () => {
    const [left, right, port] = pair();
    right.answer('never', () => new Promise(() => {}));
    const asked = left.ask('never', 1, 60_000);
    left.close('gone');
    await expect(asked).rejects.toThrow('gone');
    await expect(left.ask('never', 1, 60_000)).rejects.toThrow('gone');
    port.error = new Error('closed');
    const [other, , otherPort] = pair();
    otherPort.error = port.error;
    await expect(other.ask('never', 1, 60_000)).rejects.toThrow('closed');
  });

  test.each(GARBAGE)('passes over %j, and goes on', async (garbage) => {
    const [left, right, leftPort] = pair();
    right.answer('echo', (body) => body);
    const asked = left.ask('echo', 'before', 1000);
    leftPort.emit('message', garbage);
    leftPort.emit('message', garbage, {});
    expect(await asked).toBe('before');
    expect(await left.ask('echo', 'after', 1000)).toBe('after');
  });
});

test.each([...GARBAGE, { policy: 'p' }, { policy: 'p', key: 'a', override: 5 }])(
  'a word about an override is not %j',
  (body) => {
    expect(() => wordOf(body)).toThrow('Expected a policy, a key and an override');
  },
);
