/**
 * Builds one command from several operations: for a fast script, with the arguments described in
 * fast-begin.lua, or for the general script, with those described in decide.lua.
 */
import { isConcurrency } from '../../algorithms/index.ts';
import type { Limit } from '../../store.ts';
import { releaseChannel } from './keys.ts';
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

/** Whether all operations have the same numbers, so that the command contains them once. */
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
  // Template literals throw for symbols, as they should. `String` would accept them.
  args.push(`${params.limit}`, `${kind === 'peek' ? -1 - cost : cost}`);
  if (fast?.third !== undefined) args.push(`${fast.third(params)}`);
}

/**
 * Builds a command for any operations. Consecutive operations that differ only in their keys and
 * ids are one run, which is encoded as one argument.
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
  /** The label of the last run. */
  #label = '';
  /** Number of operations of the current run. */
  #count = 0;

  add(operation: RedisOperation): void {
    for (const key of operation.keys) this.#keys.push(key);
    const hasLabel = operation.label === this.#label;
    if (this.#first === undefined || !hasLabel || !canShareRun(this.#first, operation)) {
      this.#endRun();
      this.#first = operation;
    }
    if (!hasLabel) {
      this.#label = operation.label;
      this.#runs.push('label', operation.label);
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
    for (const [index, limit] of limits.entries()) {
      run += ` ${this.#policyNumber(policyText(limit, this.#first.keys[0]))}`;
      if (isRepeatable) run += ` ${limit.cost}`;
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

/** Returns the arguments of a policy. `key` has the prefix of the store. */
function policyText({ policy, params }: Limit, key: string): string {
  const { limit, windowMs, bucketMs, capacity } = params;
  const text = `${policy.algorithm} ${limit} ${windowMs} ${bucketMs} ${capacity}`;
  if (isConcurrency(policy)) return `${text} ${releaseChannel(key)}`;
  if (policy.lease !== undefined) return `${text} lease`;
  if (policy.block === undefined) return text;
  const { forMs, factor, maxMs, forgetMs } = policy.block;
  return `${text} ${forMs} ${factor} ${maxMs} ${forgetMs}`;
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
