/** The queue of calls that found too few units. */
import { describe, expect, it } from 'vitest';
import type { CheckResult } from '../../src/decision.ts';
import { CallQueue, type CheckRecipient } from '../../src/leases/call-queue.ts';

const DECISION = { allowed: true } as CheckResult;

/** A queue whose calls are admitted locally while `units` are left. */
function open() {
  const world = { isRequested: true, units: 0 };
  const queue = new CallQueue(() => world.isRequested);
  const sent: CheckRecipient[] = [];
  const results: string[] = [];
  const add = (name: string, isExpired = () => false): void => {
    queue.add({
      recipient: {
        get isExpired() {
          return isExpired();
        },
        succeeded: ([result]) => results.push(`${name} ${result === DECISION ? 'here' : 'there'}`),
        failed: () => results.push(`${name} failed`),
      },
      decide: () => (world.units-- > 0 ? DECISION : undefined),
      send: (recipient) => sent.push(recipient),
    });
  };
  return { world, queue, sent, results, add };
}

describe('calls without units', () => {
  it('queued calls wait for a pending request, and its units admit them in order', () => {
    const { world, queue, sent, results, add } = open();
    for (const name of ['a', 'b', 'c']) add(name);
    expect([sent, results]).toEqual([[], []]);
    Object.assign(world, { isRequested: false, units: 2 });
    queue.advance();
    expect(results).toEqual(['a here', 'b here']);
    expect(sent).toHaveLength(1);
  });

  it('queued calls are sent immediately while no request is pending', () => {
    const { world, sent, add } = open();
    world.isRequested = false;
    add('a');
    expect(sent).toHaveLength(1);
  });

  it('at most 64 queued calls are at the store, the next follows a reply', () => {
    const { world, sent, results, add } = open();
    world.isRequested = false;
    for (let call = 0; call < 70; call++) add(String(call));
    expect(sent).toHaveLength(64);
    sent[3].succeeded([{ allowed: false } as CheckResult]);
    sent[5].failed(new Error('lost'));
    expect(results).toEqual(['3 there', '5 failed']);
    expect(sent).toHaveLength(66);
  });

  it('queued calls are dropped if their callers wait no longer', () => {
    const { world, queue, sent, results, add } = open();
    add('a', () => true);
    world.isRequested = false;
    queue.advance();
    expect([sent, results]).toEqual([[], []]);
  });

  it('queued calls are sent in place of expired calls without a reply', () => {
    const { world, sent, add } = open();
    let isLost = false;
    world.isRequested = false;
    for (let call = 0; call < 64; call++) add(String(call), () => isLost);
    isLost = true;
    add('next');
    expect(sent).toHaveLength(65);
  });
});
