/**
 * Signed sessions, so that a browser does not store the admin token. A session contains its expiry
 * and is signed with a key derived from the token. Every process can verify a session, also after a
 * restart. A new token invalidates all sessions.
 *
 *     v1.<expiry in ms, base 36>.<random id>.<HMAC-SHA256 of the preceding text>
 *
 * The service stores only sessions that were ended by sign-out, until they expire.
 */
import { createHash, createHmac, randomBytes, scryptSync, timingSafeEqual } from 'node:crypto';
import { type Clock, systemClock } from 'sluice';

export interface Session {
  readonly id: string;
  readonly expiresAtMs: number;
}

/** Sessions ended by sign-out, as exchanged between processes. */
export interface EndedSessions {
  readonly sessions: readonly Session[];
  /** All sessions that expire at or before this time count as ended. */
  readonly untilMs: number;
}

/** Lifetime of a session, from the sign-in. Requests do not extend the lifetime. */
export const SESSION_MS = 8 * 60 * 60 * 1000;

/**
 * Maximum number of stored ended sessions. If there are more, the oldest one is deleted. From then
 * on, all sessions that expire no later than the deleted one count as ended.
 */
const MAX_ENDED = 10_000;

const ID_BYTES = 16;
const COOKIE_FORMAT = /^(v1\.([0-9a-z]{1,11})\.([\w-]{22}))\.([\w-]{43})$/;

/**
 * Returns the signing key for a token. The derivation is slow on purpose, because an attacker with
 * a stolen session can guess tokens offline. The salt is constant, because all processes must
 * derive the same key.
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

  /** Returns the value of the cookie. */
  textOf({ id, expiresAtMs }: Session): string {
    const signed = `v1.${expiresAtMs.toString(36)}.${id}`;
    return `${signed}.${this.#sign(signed)}`;
  }

  /** Returns the session of a cookie value, or undefined if the session is invalid or has ended. */
  read(text: string): Session | undefined {
    const [, signed, end, id, signature] = COOKIE_FORMAT.exec(text) ?? [];
    if (signed === undefined) return undefined;
    // Compares the encoded signatures, because several base64url texts decode to the same bytes.
    const isOurs = timingSafeEqual(Buffer.from(this.#sign(signed)), Buffer.from(signature));
    if (!isOurs) return undefined;
    const session = { id, expiresAtMs: Number.parseInt(end, 36) };
    return this.isActive(session) ? session : undefined;
  }

  /** Whether the session has neither expired nor been ended. */
  isActive({ id, expiresAtMs }: Session): boolean {
    if (expiresAtMs <= this.#clock.now() || expiresAtMs <= this.#endedUntilMs) return false;
    return !this.#ended.has(id);
  }

  end({ id, expiresAtMs }: Session): void {
    if (this.#ended.size >= MAX_ENDED) this.#makeRoom();
    this.#ended.set(id, expiresAtMs);
  }

  get ended(): EndedSessions {
    const sessions = [...this.#ended].map(([id, expiresAtMs]) => ({ id, expiresAtMs }));
    return { sessions, untilMs: this.#endedUntilMs };
  }

  /** Adds the ended sessions of another process. */
  addEnded({ sessions, untilMs }: EndedSessions): void {
    this.#endedUntilMs = Math.max(this.#endedUntilMs, untilMs);
    for (const session of sessions) this.end(session);
  }

  #makeRoom(): void {
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

/** Returns a name for the log. It identifies the session, but cannot be used to authenticate. */
export const sessionName = ({ id }: Session): string =>
  createHash('sha256').update(id).digest('hex').slice(0, 8);

export const SESSION_COOKIE = 'sluice_session';

/** Returns the values of all session cookies of a request. */
export function sessionCookies(header: string | undefined): readonly string[] {
  if (header === undefined || !header.includes(SESSION_COOKIE)) return [];
  return header.split(';').flatMap((part) => {
    const at = part.indexOf('=');
    return part.slice(0, at).trim() === SESSION_COOKIE ? [part.slice(at + 1).trim()] : [];
  });
}

/** Returns a `Set-Cookie` value. An empty text and age 0 delete the cookie. */
export function setCookie(text: string, maxAgeMs: number, isSecure: boolean): string {
  const fields = `HttpOnly; SameSite=Strict; Path=/; Max-Age=${Math.floor(maxAgeMs / 1000)}`;
  return `${SESSION_COOKIE}=${text}; ${fields}${isSecure ? '; Secure' : ''}`;
}
