/**
 * Builds one command from several operations: the arguments of decide.lua. Consecutive operations
 * that differ only in their keys and ids share one argument, a run.
 */
import { REPEATABLE_KINDS, type RedisOperation } from './operation.ts';

export function buildCommand(
  operations: readonly RedisOperation[],
  nowMs: number | undefined,
): RedisCommand {
  const command = new CommandBuilder();
  for (const operation of operations) command.add(operation);
  const { keys } = command;
  return { operations, args: [String(keys.length), ...command.args(nowMs)], key: keys[0] };
}

export interface RedisCommand {
  readonly operations: readonly RedisOperation[];
  readonly args: readonly string[];
  /** The key that determines the node in a Cluster. */
  readonly key: string;
}

class CommandBuilder {
  readonly keys: string[] = [];
  readonly #policies: string[] = [];
  readonly #runs: string[] = [];
  /** Ids of the operations of the current run. */
  #ids: string[] = [];
  readonly #policyNumbers = new Map<string, number>();
  /** The first operation of the current run. */
  #first: RedisOperation | undefined = undefined;
  /** Number of operations of the current run. */
  #count = 0;

  add(operation: RedisOperation): void {
    for (const key of operation.keys) this.keys.push(key);
    if (this.#first === undefined || !canShareRun(this.#first, operation)) {
      this.#endRun();
      this.#first = operation;
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
    if (this.#first === undefined) return;
    const { kind, limits, numbers, changes } = this.#first;
    let run: string = kind;
    const isRepeatable = REPEATABLE_KINDS.includes(kind);
    if (isRepeatable) run += ` ${this.#count}`;
    for (const [index, { policy, params, cost }] of limits.entries()) {
      const { limit, windowMs, bucketMs, capacity } = params;
      const text = `${policy.algorithm} ${limit} ${windowMs} ${bucketMs} ${capacity}`;
      run += ` ${this.#policyNumber(text)}`;
      if (isRepeatable) run += ` ${cost}`;
      else if (changes.length > 0) run += changes[index];
    }
    this.#runs.push(run + numbers, ...this.#ids);
    this.#ids = [];
    this.#count = 0;
  }

  /** Returns the number of a policy in the command, counted from 1. Adds a new policy. */
  #policyNumber(policy: string): number {
    let index = this.#policyNumbers.get(policy);
    if (index === undefined) {
      index = this.#policies.push(policy);
      this.#policyNumbers.set(policy, index);
    }
    return index;
  }
}

/** Whether two operations differ only in their keys and ids, so that they can share a run. */
function canShareRun(a: RedisOperation, b: RedisOperation): boolean {
  if (a.kind !== b.kind || a.limits.length !== b.limits.length) return false;
  if (!REPEATABLE_KINDS.includes(a.kind) || a.numbers !== b.numbers) return false;
  for (let index = 0; index < a.limits.length; index++) {
    const [one, other] = [a.limits[index], b.limits[index]];
    if (one.params !== other.params || one.cost !== other.cost) return false;
  }
  return true;
}
