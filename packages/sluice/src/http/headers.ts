/**
 * What an answer over HTTP says about its limits, in each of the forms that clients know.
 *
 * All numbers are rounded so that a client that believes them is never too early and never asks
 * for too much: waits and windows up, room down. Limits that are only watched are never shown.
 */

/** What one limit of an answer says. */
export interface LimitReport {
  /** The policy's name. */
  readonly policy: string;
  readonly allowed: boolean;
  readonly limit: number;
  readonly remaining: number;
  /** 0 if allowed. */
  readonly retryAfterMs: number;
  /** In how many ms it is as good as new if nothing else happens. */
  readonly resetAfterMs: number;
  readonly windowMs: number;
  /** Whether it is only watched. */
  readonly shadow?: boolean;
}

/** What an answer says: all its limits, and what follows from them. */
export interface HeaderReport {
  readonly allowed: boolean;
  readonly retryAfterMs: number;
  /** The time at which it was decided, ms since the epoch. */
  readonly atMs: number;
  readonly limits: readonly LimitReport[];
}

/** What is said of limits that were decided together, with the windows of their policies. */
export function headerReport(
  { allowed, retryAfterMs, atMs }: Omit<HeaderReport, 'limits'>,
  limits: readonly Omit<LimitReport, 'windowMs'>[],
  windowOf: (policy: string) => number,
): HeaderReport {
  const all = limits.map((each) => ({
    policy: each.policy,
    allowed: each.allowed,
    limit: each.limit,
    remaining: each.remaining,
    retryAfterMs: each.retryAfterMs,
    resetAfterMs: each.resetAfterMs,
    windowMs: windowOf(each.policy),
  }));
  return { allowed, retryAfterMs, atMs, limits: all };
}

/**
 * `draft` is draft-ietf-httpapi-ratelimit-headers-11, `draft-7` and `draft-6` are older versions of
 * it that are much in use, and `legacy` is the `X-RateLimit-*` that GitHub sends.
 */
export type HeaderForm = 'draft' | 'draft-7' | 'draft-6' | 'legacy' | 'none';

export type Header = readonly [name: string, value: string];

/** The largest integer of structured fields (RFC 9651): 15 digits. */
const LARGEST = 999_999_999_999_999;

/** An integer that a structured field can hold; what is no number counts as nothing. */
function integer(value: number): number {
  return value > 0 ? Math.min(Math.floor(value), LARGEST) : 0;
}

/** Whole seconds, rounded up. No exact integer of ms is so large that the quotient loses 1 ms. */
const seconds = (ms: number): number => (ms > 0 ? Math.min(Math.ceil(ms / 1000), LARGEST) : 0);

/** At least 1: a window of no length would mean nothing, and the draft forbids it. */
const windowSeconds = ({ windowMs }: LimitReport): number => Math.max(seconds(windowMs), 1);

/** UTF-8 has no place for half a surrogate pair, but its scheme does, and so no two names meet. */
function percentEncoded(character: string): string {
  const unit = character.charCodeAt(0);
  if (character.length > 1 || unit < 0xd800 || unit > 0xdfff) return encodeURIComponent(character);
  const bytes = [0xed, 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)];
  return bytes.map((byte) => `%${byte.toString(16).toUpperCase()}`).join('');
}

/**
 * A policy's name in printable ASCII, which is all that a structured field's string can hold. No
 * two names become the same, because `%` is encoded too.
 */
export function wireName(name: string): string {
  return name.replace(/[^\x20-\x24\x26-\x7e]/gu, percentEncoded);
}

/** Names of policies are few, and written with every answer. */
const quotedNames = new Map<string, string>();
const MAX_QUOTED = 1024;

function quoted(name: string): string {
  let text = quotedNames.get(name);
  if (text === undefined) {
    text = `"${wireName(name).replace(/["\\]/g, '\\$&')}"`;
    if (quotedNames.size >= MAX_QUOTED) quotedNames.clear();
    quotedNames.set(name, text);
  }
  return text;
}

/** The limits that count; those that are only watched are the server's own business. */
export function shownLimits({ limits }: HeaderReport): readonly LimitReport[] {
  return limits.filter(({ shadow }) => shadow !== true);
}

/** How long a denied caller has to wait: until every limit that has no room has room again. */
export function waitMs(report: HeaderReport): number {
  const violated = shownLimits(report).filter(({ allowed }) => !allowed);
  const waits = [report, ...violated].map(({ retryAfterMs }) => retryAfterMs);
  // What is no number is left out, or it would hide the waits that are.
  return Math.max(0, ...waits.filter((ms) => ms > 0));
}

/**
 * When there is more: for a limit without room, when the request would pass; for one with room,
 * when it is as new. In a denied answer the latter could lie after Retry-After, which the draft
 * advises against, so there it is not said.
 */
function untilMoreMs(limit: LimitReport, report: HeaderReport): number | undefined {
  if (!limit.allowed) return limit.retryAfterMs;
  return report.allowed ? limit.resetAfterMs : undefined;
}

/** How the thousands of a number go on. */
const LAST_DIGITS = Array.from({ length: 1000 }, (_, last) => String(last).padStart(3, '0'));

/**
 * The text of a number that is counted down. V8 keeps the text of every number that it has written
 * for a while, which costs more than to write it; so few different ones are written.
 */
function digitsOf(count: number): string {
  const thousands = Math.floor(count / 1000);
  const last = count - thousands * 1000;
  return thousands === 0 ? String(last) : thousands + LAST_DIGITS[last];
}

/**
 * The fields of an answer under one limit, in the newest form: what most answers are. The part that
 * never changes is made once, and an answer that says the same as the last one has its fields.
 */
export class SingleLimitHeaders {
  readonly #name: string;
  readonly #length: number;
  #policyField: Header = ['RateLimit-Policy', ''];
  #fields: readonly Header[] = [];
  #wasAllowed = false;
  #limit = -1;
  #remaining = -1;
  #wait = -1;
  /** All of the value, and of the lines, that stands before what remains. */
  readonly #valueStart: string;
  #linesStart = '';
  /** What stands from there on, and what stands after it. */
  #last = '';
  #end = '';

  constructor(policy: string, windowMs: number) {
    this.#name = quoted(policy);
    this.#valueStart = `${this.#name};r=`;
    this.#length = Math.max(seconds(windowMs), 1);
  }

  /**
   * The fields told last, as they go over the wire. Undefined if there must be no other ones with
   * their names: those of an answer that passes are lists, which may go on in other lines.
   */
  get lines(): string | undefined {
    if (!this.#wasAllowed) return undefined;
    // Short texts first: V8 puts them into one piece.
    const end = `${this.#last}\r\n`;
    return this.#linesStart + end;
  }

  fieldsOf(quote: Omit<LimitReport, 'windowMs'>): readonly Header[] {
    const { allowed, limit, remaining } = quote;
    const wait = seconds(allowed ? quote.resetAfterMs : quote.retryAfterMs);
    const isSame = remaining === this.#remaining && wait === this.#wait && limit === this.#limit;
    if (isSame && allowed === this.#wasAllowed) return this.#fields;
    if (wait !== this.#wait) this.#end = `;t=${wait}`;
    if (limit !== this.#limit) this.#begin(limit);
    this.#last = digitsOf(integer(remaining)) + this.#end;
    const current: Header = ['RateLimit', this.#valueStart + this.#last];
    this.#fields = allowed
      ? [this.#policyField, current]
      : // Many refusals are told the same, and a handler must not add to them.
        Object.freeze([this.#policyField, current, retryField(wait)]);
    this.#wasAllowed = allowed;
    this.#limit = limit;
    this.#remaining = remaining;
    this.#wait = wait;
    return this.#fields;
  }

  #begin(limit: number): void {
    const policy = `${this.#name};q=${integer(limit)};w=${this.#length}`;
    this.#policyField = ['RateLimit-Policy', policy];
    const lines = ['RateLimit-Policy: ', policy, '\r\nRateLimit: ', this.#valueStart];
    // Joined, it is one piece; otherwise V8 would keep the parts and gather them for every answer.
    this.#linesStart = lines.join('');
  }
}

function draft(report: HeaderReport): readonly Header[] {
  const limits = shownLimits(report);
  // An empty list cannot be sent: structured fields leave the field out.
  if (limits.length === 0) return [];
  const policies = limits.map(
    (limit) => `${quoted(limit.policy)};q=${integer(limit.limit)};w=${windowSeconds(limit)}`,
  );
  const current = limits.map((limit) => {
    const ms = untilMoreMs(limit, report);
    const until = ms === undefined ? '' : `;t=${seconds(ms)}`;
    return `${quoted(limit.policy)};r=${integer(limit.remaining)}${until}`;
  });
  return [
    ['RateLimit-Policy', policies.join(', ')],
    ['RateLimit', current.join(', ')],
  ];
}

/**
 * The one limit that the older forms have room for: denied, the one that makes the caller wait
 * longest; allowed, the one with the least remaining; in a tie the first.
 */
function decisiveLimit(report: HeaderReport): LimitReport | undefined {
  const limits = shownLimits(report);
  const violated = report.allowed ? [] : limits.filter(({ allowed }) => !allowed);
  if (violated.length > 0) {
    return violated.reduce((best, each) => (each.retryAfterMs > best.retryAfterMs ? each : best));
  }
  if (limits.length === 0) return undefined;
  return limits.reduce((best, each) => (each.remaining < best.remaining ? each : best));
}

/** The numbers of the decisive limit. A denied answer never resets after Retry-After. */
function decisive(
  report: HeaderReport,
): { limit: number; remaining: number; resetMs: number } | undefined {
  const found = decisiveLimit(report);
  if (found === undefined) return undefined;
  const resetMs = untilMoreMs(found, report) ?? report.retryAfterMs;
  return { limit: integer(found.limit), remaining: integer(found.remaining), resetMs };
}

/**
 * The policies without their names. The old drafts forbid two with the same quota; the one with
 * the longest window is kept, because whoever keeps to it keeps to the others.
 */
function namelessPolicies(report: HeaderReport): string {
  const windows = new Map<number, number>();
  for (const limit of shownLimits(report)) {
    const quota = integer(limit.limit);
    windows.set(quota, Math.max(windows.get(quota) ?? 0, windowSeconds(limit)));
  }
  return [...windows].map(([quota, window]) => `${quota};w=${window}`).join(', ');
}

function draft7(report: HeaderReport): readonly Header[] {
  const found = decisive(report);
  if (found === undefined) return [];
  const { limit, remaining, resetMs } = found;
  return [
    ['RateLimit-Policy', namelessPolicies(report)],
    ['RateLimit', `limit=${limit}, remaining=${remaining}, reset=${seconds(resetMs)}`],
  ];
}

function draft6(report: HeaderReport): readonly Header[] {
  const found = decisive(report);
  if (found === undefined) return [];
  return [
    ['RateLimit-Policy', namelessPolicies(report)],
    ['RateLimit-Limit', String(found.limit)],
    ['RateLimit-Remaining', String(found.remaining)],
    ['RateLimit-Reset', String(seconds(found.resetMs))],
  ];
}

/** The reset is a time here, in seconds since the epoch, as GitHub has it. */
function legacy(report: HeaderReport): readonly Header[] {
  const found = decisive(report);
  if (found === undefined) return [];
  const resetMs = report.atMs + Math.max(found.resetMs, 0);
  return [
    ['X-RateLimit-Limit', String(found.limit)],
    ['X-RateLimit-Remaining', String(found.remaining)],
    ['X-RateLimit-Reset', String(seconds(resetMs))],
  ];
}

/** A field with what it says already: limiters in a row tell their policies in one list. */
export function joinedField(before: unknown, value: string): string {
  const isList = typeof before === 'string' && before.startsWith('"') && value.startsWith('"');
  return isList ? `${before}, ${value}` : value;
}

/** An item of such a list and, in it, the name of the policy. */
const ITEM = /("(?:[^"\\]|\\.)*")[^,]*/g;

/**
 * The same before what an answer says itself. An answer may be the same object every time, and then
 * it still says what it was made to say the last time: that is left out.
 */
export function joinedAnew(value: string, own: string): string {
  if (!value.startsWith('"') || !own.startsWith('"')) return value;
  const names = Array.from(value.matchAll(ITEM), ([, name]) => name);
  const others = Array.from(own.matchAll(ITEM)).filter(([, name]) => !names.includes(name));
  return [value, ...others.map(([item]) => item)].join(', ');
}

/** The fields of each form. `Retry-After` is not among them: see `retryAfter`. */
export const headerForms: Readonly<
  Record<HeaderForm, (report: HeaderReport) => readonly Header[]>
> = {
  draft,
  'draft-7': draft7,
  'draft-6': draft6,
  legacy,
  none: () => [],
};

/**
 * `Retry-After` for a denied answer: whole seconds, rounded up, so never early, and at least 1,
 * because 0 would invite a loop. All forms send it but `none`, which tells a client nothing.
 */
export function retryAfter(report: HeaderReport, form: HeaderForm = 'draft'): Header | undefined {
  if (report.allowed || form === 'none') return undefined;
  return retryField(seconds(waitMs(report)));
}

function retryField(wait: number): Header {
  return ['Retry-After', String(Math.max(wait, 1))];
}
