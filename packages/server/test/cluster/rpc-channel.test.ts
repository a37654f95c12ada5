import { EventEmitter } from 'node:events';
import { describe, expect, test, vi } from 'vitest';
import { type Port, RpcChannel } from '../../src/cluster/rpc-channel.ts';
import { parseOverrideChange } from '../../src/cluster/shared-state.ts';

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
  { kind: 'call' },
  { kind: 'call', id: {}, name: {} },
  { kind: 'call', id: 1, name: '__proto__' },
  { kind: 'call', id: 1, name: 'constructor', body: {} },
  { kind: 'result' },
  { kind: 'result', id: '__proto__', body: 1 },
  { kind: 'result', id: 99, body: 1 },
  { kind: 'error', id: 99 },
  { kind: 'error', id: 0.5, body: 'text' },
  { kind: 'connection', listener: 'http' },
];

describe('RpcChannel', () => {
  test('a call over an RpcChannel returns the result or the error of the handler', async () => {
    const [left, right] = pair();
    right.handle('double', (body) => 2 * (body as number));
    right.handle('fail', () => {
      throw Object.assign(new Error('no'), { code: 'ENO' });
    });
    expect(await Promise.all([1, 2, 3].map((each) => left.call('double', each, 1000)))).toEqual([
      2, 4, 6,
    ]);
    await expect(left.call('fail', 1, 1000)).rejects.toMatchObject({ message: 'no', code: 'ENO' });
    await expect(left.call('unknown', 1, 1000)).rejects.toThrow('No handler for unknown');
  });

  test('an RpcChannel rejects a call after its timeout and clears the timer', async () => {
    vi.useFakeTimers();
    try {
      const [left, right] = pair();
      right.handle('never', () => new Promise(() => {}));
      const call = left.call('never', 1, 500);
      const late = expect(call).rejects.toThrow('No reply to never within 500 ms');
      await vi.advanceTimersByTimeAsync(501);
      await late;
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  test('an RpcChannel rejects pending and later calls when the channel is closed', async () => {
    const [left, right, port] = pair();
    right.handle('never', () => new Promise(() => {}));
    const call = left.call('never', 1, 60_000);
    left.close('exited');
    await expect(call).rejects.toThrow('exited');
    await expect(left.call('never', 1, 60_000)).rejects.toThrow('exited');
    port.error = new Error('closed');
    const [other, , otherPort] = pair();
    otherPort.error = port.error;
    await expect(other.call('never', 1, 60_000)).rejects.toThrow('closed');
  });

  test.each(GARBAGE)('an RpcChannel ignores the invalid message %j', async (garbage) => {
    const [left, right, leftPort] = pair();
    right.handle('echo', (body) => body);
    const call = left.call('echo', 'before', 1000);
    leftPort.emit('message', garbage);
    leftPort.emit('message', garbage, {});
    expect(await call).toBe('before');
    expect(await left.call('echo', 'after', 1000)).toBe('after');
  });
});

test.each([...GARBAGE, { policy: 'p' }, { policy: 'p', key: 'a', override: 5 }])(
  'parseOverrideChange rejects %j',
  (body) => {
    expect(() => parseOverrideChange(body)).toThrow('Expected a policy, a key and an override');
  },
);
