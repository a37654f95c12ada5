/**
 * Policies as labels. Every label is a time series that somebody has to keep, so there is a bound:
 * policies of the configuration go by their names, limits that requests bring along share a label,
 * and so do all names after the first thousand.
 */
import type { Desk } from '../desk.ts';
import { HttpError } from '../http/exchange.ts';

export const MOST_LABELS = 1000;
/** The label of limits that came with a request. No policy of a file is written like this. */
export const OF_REQUESTS = '(request)';
/** The label of what came after the first thousand. */
export const OF_OTHERS = '(other)';

/** What is kept about each label, made when it is first asked for. */
export class ByPolicy<T> {
  readonly #desk: Desk;
  readonly #make: (label: string) => T;
  readonly #kept = new Map<string, T>();

  constructor(desk: Desk, make: (label: string) => T) {
    this.#desk = desk;
    this.#make = make;
  }

  of(policy: string): T {
    return this.#kept.get(policy) ?? this.#first(policy);
  }

  #first(policy: string): T {
    const isServed = this.#desk.policies.get(policy) !== undefined;
    if (isServed && this.#kept.size < MOST_LABELS) return this.#at(policy);
    return this.#at(isServed ? OF_OTHERS : OF_REQUESTS);
  }

  #at(label: string): T {
    let kept = this.#kept.get(label);
    if (kept === undefined) {
      kept = this.#make(label);
      this.#kept.set(label, kept);
    }
    return kept;
  }

  /** What is kept under a label, if anything is. */
  get(label: string): T | undefined {
    return this.#kept.get(label);
  }

  entries(): Iterable<[label: string, T]> {
    return this.#kept;
  }
}

/** Refuses what is neither the name of a policy nor a label that several share. */
export function checkLabel({ policies }: Desk, name: string): void {
  if (name === OF_REQUESTS || name === OF_OTHERS || policies.get(name) !== undefined) return;
  const names = policies.list().map(({ config }) => config.name);
  const what = `Expected \`policy\` to be one of: ${names.join(' ').slice(0, 500) || 'none'}`;
  throw new HttpError(404, 'ERR_UNKNOWN_POLICY', what);
}
