/** What a request of Express carries for those who come after, as express-rate-limit has it. */
import { dateOf } from '../clock.ts';
import type { Decision } from '../decision.ts';

export interface RateLimitInfo {
  readonly limit: number;
  readonly used: number;
  /** The same as `used`, under its old name. */
  readonly current: number;
  readonly remaining: number;
  readonly resetTime: Date;
  readonly key: string;
  /** Not shown when the rest is printed. */
  readonly decision: Decision;
}

export class Info implements RateLimitInfo {
  readonly limit: number;
  readonly used: number;
  readonly current: number;
  readonly remaining: number;
  readonly key: string;
  readonly #decision: Decision;

  constructor(decision: Decision) {
    this.limit = decision.limit;
    this.used = decision.limit - decision.remaining;
    this.current = this.used;
    this.remaining = decision.remaining;
    this.key = decision.key;
    this.#decision = decision;
  }

  get decision(): Decision {
    return this.#decision;
  }

  /** Made when it is read, as it mostly is not. */
  get resetTime(): Date {
    return dateOf(this.#decision.atMs + this.#decision.resetAfterMs);
  }

  toJSON(): object {
    return { ...this, resetTime: this.resetTime };
  }
}

/** What requests carry under a name. */
const values = new Map<string, WeakMap<object, unknown>>();

/** What requests of Express are made from, and the names under which they can be asked. */
const readable = new WeakMap<object, Set<string>>();

/**
 * Gives requests a property. V8 makes a new shape for every request of Express that gets one, which
 * takes longer than all the rest of a check. So the value is kept beside the request, and read by
 * what all requests of Express are made from.
 */
export function propertyOf(name: string): (request: object, value: Info) => void {
  const kept = values.get(name) ?? new WeakMap<object, unknown>();
  values.set(name, kept);
  let known: object | undefined;
  return (request, value) => {
    const kind = Object.getPrototypeOf(request);
    if (kind === known || isReadable(request, name, kept)) {
      known = kind;
      kept.set(request, value);
    } else (request as Record<string, unknown>)[name] = value;
  };
}

/** Sees to it that requests like this one can be asked for what is kept; false if they cannot. */
function isReadable(request: object, name: string, kept: WeakMap<object, unknown>): boolean {
  const base = baseOf(Object.getPrototypeOf(request));
  if (base === undefined) return false;
  const names = readable.get(base) ?? new Set();
  if (names.has(name)) return true;
  // What requests have already under that name stays what it is.
  if (name in request) return false;
  readable.set(base, names.add(name));
  Object.defineProperty(base, name, {
    configurable: true,
    get(this: object) {
      return kept.get(this);
    },
    set(this: object, value: unknown) {
      kept.set(this, value);
    },
  });
  return true;
}

/** The object that all requests of Express are made from: the one before Node's own. */
function baseOf(kind: object): object | undefined {
  if (Object.hasOwn(kind, 'headers')) return undefined;
  const above: object | null = Object.getPrototypeOf(kind);
  if (above === null) return undefined;
  return Object.hasOwn(above, 'headers') ? kind : baseOf(above);
}
