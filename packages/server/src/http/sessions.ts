/**
 * Signed sessions, so that a browser need not keep the admin token. A session says itself until
 * when it is good, and is signed with a key made of the token: every process can read it, also
 * after a restart, and none does any more once there is another token.
 *
 *     v1.<end in ms, base 36>.<random id>.<HMAC-SHA256 of all before it>
 *
 * Only those that were ended before their time have to be remembered, and only until that time.
 */
import { createHash, createHmac, randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { type Clock, systemClock } from 'sluice';

export interface Session {
  readonly id: string;
  readonly expiresAtMs: number;
}

/** What processes tell each other about sessions that were ended. */
export interface EndedSessions {
  readonly sessions: readonly Session[];
  /** All that would end until then count as ended. */
  readonly untilMs: number;
}

/** From signing in; it does not get longer by being used. */
export const SESSION_MS = 8 * 60 * 60 * 1000;

/** Beyond it the oldest is forgotten, and with it all sessions that are not younger. */
const MAX_ENDED = 10_000;

const ID_BYTES = 16;
const FORM = /^(v1\.([0-9a-z]{1,11})\.([\w-]{22}))\.([\w-]{43})$/;

/**
 * Slow on purpose: whoever gets hold of a session can try tokens on it, wherever they like. The
 * salt is always the same, since all processes have to come to the same key.
 */
const keyOf = (adminToken: string): Buffer => scryptSync(adminToken, 'sluice session v1', 32);

export class Sessions {
  readonly #key: Buffer;
  readonly #clock: Clock;
  readonly #ended = new Map<string, number>();
  #endedUntilMs = 0;

  constructor(adminToken: string, clock: Clock = systemClock) {
    this.#key = keyOf(adminToken);
    this.#clock = clock;
  }

  open(): Session {
    const id = randomBytes(ID_BYTES).toString('base64url');
    return { id, expiresAtMs: this.#clock.now() + SESSION_MS };
  }

  /** As the cookie has it. */
  textOf({ id, expiresAtMs }: Session): string {
    const signed = `v1.${expiresAtMs.toString(36)}.${id}`;
    return `${signed}.${this.#sign(signed)}`;
  }

  /** The session that a text stands for; undefined if it is none of ours, or over. */
  read(text: string): Session | undefined {
    const [, signed, end, id, signature] = FORM.exec(text) ?? [];
    if (signed === undefined) return undefined;
    // Compared as text, because several texts can stand for the same bytes.
    const isOurs = timingSafeEqual(Buffer.from(this.#sign(signed)), Buffer.from(signature));
    if (!isOurs) return undefined;
    const session = { id, expiresAtMs: Number.parseInt(end, 36) };
    return this.isGood(session) ? session : undefined;
  }

  /** Whether it is neither over nor ended. */
  isGood({ id, expiresAtMs }: Session): boolean {
    if (expiresAtMs <= this.#clock.now() || expiresAtMs <= this.#endedUntilMs) return false;
    return !this.#ended.has(id);
  }

  end({ id, expiresAtMs }: Session): void {
    if (this.#ended.size >= MAX_ENDED) this.#forget();
    this.#ended.set(id, expiresAtMs);
  }

  get ended(): EndedSessions {
    const sessions = [...this.#ended].map(([id, expiresAtMs]) => ({ id, expiresAtMs }));
    return { sessions, untilMs: this.#endedUntilMs };
  }

  /** Takes over what another process knows. */
  learn({ sessions, untilMs }: EndedSessions): void {
    this.#endedUntilMs = Math.max(this.#endedUntilMs, untilMs);
    for (const session of sessions) this.end(session);
  }

  /** Makes room: of those that are over, or else of one, with whatever is not younger. */
  #forget(): void {
    const nowMs = this.#clock.now();
    for (const [id, expiresAtMs] of this.#ended) {
      if (expiresAtMs <= nowMs) this.#ended.delete(id);
    }
    if (this.#ended.size < MAX_ENDED) return;
    const [[id, expiresAtMs]] = this.#ended;
    this.#endedUntilMs = Math.max(this.#endedUntilMs, expiresAtMs);
    this.#ended.delete(id);
  }

  #sign(text: string): string {
    return createHmac('sha256', this.#key).update(text).digest('base64url');
  }
}

/** A name for the log. It tells sessions apart, and nobody gets in with it. */
export const sessionName = ({ id }: Session): string =>
  createHash('sha256').update(id).digest('hex').slice(0, 8);

export const SESSION_COOKIE = 'sluice_session';

/** All that a request has under the name of the session's cookie. */
export function sessionCookies(header: string | undefined): readonly string[] {
  if (header === undefined || !header.includes(SESSION_COOKIE)) return [];
  return header.split(';').flatMap((part) => {
    const at = part.indexOf('=');
    return part.slice(0, at).trim() === SESSION_COOKIE ? [part.slice(at + 1).trim()] : [];
  });
}

/** `text` is empty, and the age 0, to take the cookie away. */
export function setCookie(text: string, maxAgeMs: number, isSecure: boolean): string {
  const fields = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${Math.floor(maxAgeMs / 1000)}`;
  return `${SESSION_COOKIE}=${text}; ${fields}${isSecure ? '; Secure' : ''}`;
}
