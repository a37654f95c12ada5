import { memoryStore } from 'sluice';
import { describe, expect, test } from 'vitest';
import { Desk } from '../src/desk.ts';
import { MOST_WORDS, type ShadowChange, ShadowWords, shadowWordOf } from '../src/shadow-words.ts';
import { policy } from './running.ts';

const policies = [policy('few', 2, '1h'), policy('watched', 1, '1h', { shadow: true })];

describe('ShadowWords', () => {
  test('tell each change to whoever listens, and where it was made', () => {
    const words = new ShadowWords();
    const heard: ShadowChange[] = [];
    words.onChange((change) => heard.push(change));
    words.set({ policy: 'b', shadow: true });
    words.set({ policy: 'a', shadow: false }, { isRemote: true });
    words.set({ policy: 'b', shadow: null });
    expect(heard).toEqual([
      { policy: 'b', shadow: true, isRemote: false },
      { policy: 'a', shadow: false, isRemote: true },
      { policy: 'b', shadow: null, isRemote: false },
    ]);
    expect(words.list()).toEqual([{ policy: 'a', shadow: false }]);
  });

  test('count by the time that others hear of them', () => {
    const desk = new Desk(memoryStore(), policies);
    const seen: boolean[][] = [];
    desk.shadowWords.onChange(({ policy }) => {
      seen.push([desk.policies.isShadow(policy), desk.policies.hasShadow]);
    });
    desk.shadowWords.set({ policy: 'few', shadow: true });
    desk.shadowWords.set({ policy: 'watched', shadow: false });
    desk.shadowWords.set({ policy: 'few', shadow: null });
    desk.shadowWords.set({ policy: 'none', shadow: true });
    expect(seen).toEqual([
      [true, true],
      [false, true],
      [false, false],
      [false, false],
    ]);
  });

  test('of another process are not counted again here', () => {
    const words = new ShadowWords();
    for (let at = 0; at < MOST_WORDS; at++) words.set({ policy: `p${at}`, shadow: true });
    expect(() => words.set({ policy: 'more', shadow: true })).toThrow('Expected at most 1000');
    words.set({ policy: 'more', shadow: true }, { isRemote: true });
    expect(words.get('more')).toBe(true);
  });

  test.each([undefined, null, 'few', {}, { policy: 'few' }, { policy: 1, shadow: true }])(
    'are not read from %j',
    (body) => {
      expect(() => shadowWordOf(body)).toThrow('Expected a policy, and true, false or null');
    },
  );
});
