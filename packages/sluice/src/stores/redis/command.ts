/**
 * Builds one command from several operations: the arguments of a fast script (fast-begin.lua) or of
 * the general script (decide.lua).
 */
import { REPEATABLE_KINDS, type RedisOperation } from './operation.ts';
import { SCRIPTS, type Script } from './scripts.generated.ts';

export interface RedisCommand {
  readonly script: Script;
  /** The command, with the hash of the script: `EVALSHA`, hash, number of keys, keys, arguments. */
  readonly args: string[];
}

const timeText = (nowMs: number | undefined): string => (nowMs === undefined ? '' : String(nowMs));

/** Builds a command for checks and peeks of one group, see `FastFormat`. */
export function buildFastCommand(
  operations: readonly RedisOperation[],
  nowMs: number | undefined,
): RedisCommand {
  const { script, window } = operations[0].fast!;
  const args = ['EVALSHA', script.sha, String(operations.length)];
  for (const { keys } of operations) args.push(keys[0]);
  args.push(timeText(nowMs), window);
  pushNumbers(args, operations[0]);
  if (haveSameNumbers(operations)) return { script, args };
  for (let place = 1; place < operations.length; place++) pushNumbers(args, operations[place]);
  return { script, args };
}

/** Whether one set of numbers is enough for all keys. */
function haveSameNumbers(operations: readonly RedisOperation[]): boolean {
  const { kind, limits } = operations[0];
  const [{ params, cost }] = limits;
  for (let place = 1; place < operations.length; place++) {
    const { kind: otherKind, limits: others } = operations[place];
    const [{ params: own, cost: otherCost }] = others;
    if (otherKind !== kind || otherCost !== cost) return false;
    if (own === params) continue;
    if (own.limit !== params.limit || own.capacity !== params.capacity) return false;
    if (own.bucketMs !== params.bucketMs) return false;
  }
  return true;
}

function pushNumbers(args: string[], { kind, limits, fast }: RedisOperation): void {
  const [{ params, cost }] = limits;
  // Templates throw for symbols, which `String` accepts.
  args.push(`${params.limit}`, `${kind === 'peek' ? -1 - cost : cost}`);
  if (fast?.third !== undefined) args.push(`${fast.third(params)}`);
}

/**
 * Builds a command for any operations. Consecutive operations that differ only in their keys and
 * ids share one argument, a run.
 */
export function buildGeneralCommand(
  operations: readonly RedisOperation[],
  nowMs: number | undefined,
): RedisCommand {
  const command = new GeneralCommandBuilder();
  for (const operation of operations) command.add(operation);
  return { script: SCRIPTS.general, args: command.args(nowMs) };
}

class GeneralCommandBuilder {
  readonly #keys: string[] = [];
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
    for (const key of operation.keys) this.#keys.push(key);
    if (this.#first === undefined || !canShareRun(this.#first, operation)) {
      this.#endRun();
      this.#first = operation;
    }
    if (operation.id !== undefined) this.#ids.push(operation.id);
    this.#count++;
  }

  args(nowMs: number | undefined): string[] {
    this.#endRun();
    const [keys, policies] = [this.#keys, this.#policies];
    return [
      ...['EVALSHA', SCRIPTS.general.sha, String(keys.length), ...keys],
      ...[timeText(nowMs), String(policies.length), ...policies, ...this.#runs],
    ];
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
