import { describe, expect, it } from 'vitest';
import { createLimiter } from '../src/index.ts';

const open = () => createLimiter({ policies: { p: '10/1m' } });

const admitted = (limiter: ReturnType<typeof open>) => {
  const decision = limiter.checkSync('p', 'a', { cost: 4 });
  if (!decision.allowed) throw new Error('expected to be admitted');
  return decision.receipt;
};

describe('a receipt', () => {
  it.each([
    ['plain', (receipt: object) => receipt],
    ['frozen', Object.freeze],
    ['sealed', Object.seal],
  ])('a %s receipt is refunded once', (_, prepare) => {
    const limiter = open();
    const receipt = admitted(limiter);
    prepare(receipt);
    expect([limiter.refundSync(receipt), limiter.refundSync(receipt)]).toEqual([4, 0]);
    expect(limiter.peekSync('p', 'a').remaining).toBe(10);
  });

  it('a used receipt has the same properties as before', () => {
    const limiter = open();
    const receipt = admitted(limiter);
    const before = structuredClone(receipt);
    limiter.refundSync(receipt);
    expect(receipt).toStrictEqual(before);
    expect(Object.keys(receipt)).toEqual(Object.keys(before));
    expect(structuredClone(receipt)).toStrictEqual(before);
  });

  it('a receipt used by one limiter is unused for another', () => {
    const [one, other] = [open(), open()];
    const receipt = admitted(one);
    other.checkSync('p', 'a', { cost: 4 });
    expect(one.refundSync(receipt)).toBe(4);
    other.refundSync(receipt);
    expect(one.refundSync(receipt)).toBe(0);
  });
});
