import { ManualClock } from 'sluice';
import { describe, expect, test } from 'vitest';
import {
  SESSION_MS,
  Sessions,
  sessionCookies,
  sessionName,
  setCookie,
} from '../../src/http/sessions.ts';

const TOKEN = 'correct horse battery staple';
const START_MS = 1_763_200_000_000;

function setUp(token = TOKEN) {
  const clock = new ManualClock(START_MS);
  const sessions = new Sessions(token, clock);
  const session = sessions.open();
  return { clock, sessions, session, text: sessions.textOf(session) };
}

/** Replaces one character by another of the same alphabet. */
const changedAt = (text: string, at: number): string =>
  text.slice(0, at) + (text[at] === 'a' ? 'b' : 'a') + text.slice(at + 1);

describe('Sessions', () => {
  test('a session is valid for exactly eight hours', () => {
    const { clock, sessions, session, text } = setUp();
    expect(session.expiresAtMs).toBe(START_MS + 8 * 3_600_000);
    expect(sessions.read(text)).toEqual(session);
    clock.advance(SESSION_MS - 1);
    expect([sessions.read(text), sessions.isActive(session)]).toEqual([session, true]);
    clock.advance(1);
    expect([sessions.read(text), sessions.isActive(session)]).toEqual([undefined, false]);
  });

  test('each session has a different id', () => {
    const { sessions } = setUp();
    const ids = Array.from({ length: 1000 }, () => sessions.open().id);
    expect(new Set(ids).size).toBe(1000);
  });

  test('a session is valid in every process with the same token and in no other', () => {
    const { clock, session, text } = setUp();
    expect(new Sessions(TOKEN, clock).read(text)).toEqual(session);
    expect(new Sessions(`${TOKEN}.`, clock).read(text)).toBeUndefined();
  });

  test('a session with any changed character is rejected', () => {
    const { sessions, text } = setUp();
    for (let at = 0; at < text.length; at++) {
      expect([at, sessions.read(changedAt(text, at))]).toEqual([at, undefined]);
    }
  });

  test('another base64url text of the same signature bytes is rejected', () => {
    const { sessions, text } = setUp();
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const start = text.slice(0, -1);
    const read = [...alphabet].filter((last) => sessions.read(start + last) !== undefined);
    expect(read).toEqual([text.at(-1)]);
  });

  test('a changed expiry or id with an old signature is rejected', () => {
    const { sessions, text } = setUp();
    const [version, end, id, signature] = text.split('.');
    const later = (Number.parseInt(end, 36) + 1).toString(36);
    const other = sessions.textOf(sessions.open()).split('.')[2];
    const forged = [
      [version, later, id, signature],
      [version, `0${end}`, id, signature],
      [version, end.toUpperCase(), id, signature],
      [version, end, other, signature],
      ['v2', end, id, signature],
      [version, end, id, ''],
      [version, end, id],
      [version, end, id, signature, signature],
      [version, '', id, signature],
      [version, `-${end}`, id, signature],
      [version, 'zzzzzzzzzzz', id, signature],
    ];
    for (const parts of forged) expect(sessions.read(parts.join('.'))).toBeUndefined();
    const wrong = ['', '.', '...', `${text}\n`, ` ${text}`, `"${text}"`, 'x'.repeat(32_000)];
    for (const each of wrong) expect(sessions.read(each)).toBeUndefined();
  });

  test('ending a session leaves the others valid', () => {
    const { sessions, session, text } = setUp();
    const other = sessions.open();
    sessions.end(session);
    expect([sessions.read(text), sessions.isActive(session)]).toEqual([undefined, false]);
    expect(sessions.read(sessions.textOf(other))).toEqual(other);
  });

  test('ended sessions can be imported from another process', () => {
    const { clock, sessions, session, text } = setUp();
    sessions.end(session);
    const later = new Sessions(TOKEN, clock);
    expect(later.read(text)).toEqual(session);
    later.addEnded(JSON.parse(JSON.stringify(sessions.ended)));
    expect(later.read(text)).toBeUndefined();
  });

  test('the name of a session in the log is not part of its cookie value', () => {
    const { session, text } = setUp();
    expect(sessionName(session)).toMatch(/^[0-9a-f]{8}$/);
    expect(text).not.toContain(sessionName(session));
  });
});

describe('ended sessions', () => {
  test('ended sessions are deleted when they expire', () => {
    const { clock, sessions } = setUp();
    for (let count = 0; count < 10_000; count++) sessions.end(sessions.open());
    clock.advance(SESSION_MS);
    const young = sessions.open();
    sessions.end(sessions.open());
    expect(sessions.ended.sessions).toHaveLength(1);
    expect(sessions.isActive(young)).toBe(true);
  });

  test('the number of ended sessions is bounded, and none becomes valid again', () => {
    const { clock, sessions, session: oldest } = setUp();
    clock.advance(1);
    const first = sessions.open();
    sessions.end(first);
    clock.advance(1);
    const newest = sessions.open();
    for (let count = 0; count < 10_000; count++) sessions.end(sessions.open());
    expect(sessions.ended.sessions).toHaveLength(10_000);
    // When an ended session is dropped, all sessions that are not newer become invalid.
    expect([oldest, first, newest].map((each) => sessions.isActive(each))).toEqual([
      ...[false, false, true],
    ]);
    const imported = new Sessions(TOKEN, clock);
    imported.addEnded(sessions.ended);
    expect([oldest, first, newest].map((each) => imported.isActive(each))).toEqual([
      ...[false, false, true],
    ]);
  });
});

describe('session cookies', () => {
  test('session cookies are found by their whole name at any position', () => {
    const found: readonly [string | undefined, readonly string[]][] = [
      [undefined, []],
      ['', []],
      ['sluice_session', []],
      ['sluice_session=', ['']],
      ['sluice_session=a', ['a']],
      ['a=b; sluice_session=c; d=e', ['c']],
      ['sluice_session=a=b', ['a=b']],
      ['sluice_session=a; sluice_session=b', ['a', 'b']],
      ['xsluice_session=a; sluice_sessions=b; SLUICE_SESSION=c', []],
      ['other=sluice_session=a', []],
      [';;; =; sluice_session =a ;', ['a']],
    ];
    for (const [header, values] of found) expect(sessionCookies(header)).toEqual(values);
  });

  test('session cookies are SameSite=Strict and HttpOnly', () => {
    const fields = 'HttpOnly; SameSite=Strict; Path=/; Max-Age=28800';
    expect(setCookie('x', SESSION_MS, false)).toBe(`sluice_session=x; ${fields}`);
    expect(setCookie('x', SESSION_MS, true)).toBe(`sluice_session=x; ${fields}; Secure`);
  });
});
