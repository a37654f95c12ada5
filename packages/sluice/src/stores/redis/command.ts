/** Builds one command from several operations: the arguments of decide.lua. */
import { COUNTED, type RedisOperation } from './operation.ts';

export function buildCommand(
  operations: readonly RedisOperation[],
  nowMs: number | undefined,
): Built {
  const command = new Command();
  for (const operation of operations) command.add(operation);
  const { keys } = command;
  return { operations, args: [String(keys.length), ...command.args(nowMs)], key: keys[0] };
}

export interface Built {
  readonly operations: readonly RedisOperation[];
  readonly args: readonly string[];
  /** The key that determines the node in a Cluster. */
  readonly key: string;
}

class Command {
  readonly keys: string[] = [];
  readonly #policies: string[] = [];
  readonly #runs: string[] = [];
  /** The ids of the operations of the last run. */
  #ids: string[] = [];
  readonly #places = new Map<string, number>();
  #last: RedisOperation | undefined = undefined;
  #count = 0;

  add(operation: RedisOperation): void {
    for (const key of operation.keys) this.keys.push(key);
    if (this.#last === undefined || !isAlike(this.#last, operation)) {
      this.#endRun();
      this.#last = operation;
    }
    if (operation.id !== undefined) this.#ids.push(operation.id);
    this.#count++;
  }

  args(nowMs: number | undefined): string[] {
    this.#endRun();
    const now = nowMs === undefined ? '' : String(nowMs);
    const { length } = this.#policies;
    return [...this.keys, now, String(length), ...this.#policies, ...this.#runs];
  }

  #endRun(): void {
    if (this.#last === undefined) return;
    const { kind, limits, numbers, changes } = this.#last;
    let run: string = kind;
    const isCounted = COUNTED.includes(kind);
    if (isCounted) run += ` ${this.#count}`;
    for (const [place, { policy, params, cost }] of limits.entries()) {
      const { limit, windowMs, bucketMs, capacity } = params;
      const text = `${policy.algorithm} ${limit} ${windowMs} ${bucketMs} ${capacity}`;
      run += ` ${this.#placeOf(text)}`;
      if (isCounted) run += ` ${cost}`;
      else if (changes.length > 0) run += changes[place];
    }
    this.#runs.push(run + numbers, ...this.#ids);
    this.#ids = [];
    this.#count = 0;
  }

  #placeOf(policy: string): number {
    let place = this.#places.get(policy);
    if (place === undefined) {
      place = this.#policies.push(policy);
      this.#places.set(policy, place);
    }
    return place;
  }
}

/** Whether two operations differ only in their keys, so that one run can do both. */
function isAlike(a: RedisOperation, b: RedisOperation): boolean {
  if (a.kind !== b.kind || a.limits.length !== b.limits.length) return false;
  if (!COUNTED.includes(a.kind) || a.numbers !== b.numbers) return false;
  for (let place = 0; place < a.limits.length; place++) {
    const [one, other] = [a.limits[place], b.limits[place]];
    if (one.params !== other.params || one.cost !== other.cost) return false;
  }
  return true;
}
