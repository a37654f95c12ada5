/**
 * Compares the fast scripts with the general script on random steps: every reply, and the stored
 * bytes after every command. The two sides have separate keys on one server. Refunds and
 * settlements, which only the general script executes, change both sides, so that fast and general
 * commands alternate on the same values.
 */
import { describe, expect, it } from 'vitest';
import type { WindowAlgorithmName } from '../../src/algorithms/index.ts';
import { definePolicy, type Policy } from '../../src/policy.ts';
import { buildFastCommand, buildGeneralCommand } from '../../src/stores/redis/command.ts';
import { KeyNames } from '../../src/stores/redis/keys.ts';
import type { RedisOperation } from '../../src/stores/redis/operation.ts';
import { CheckOperation, NumberOperation } from '../../src/stores/redis/operations.ts';
import { HandedOver, Reply } from '../../src/stores/redis/reply.ts';
import { useRedis } from './campaign.ts';
import { Dice } from './traces.ts';

const world = useRedis();

const STEPS = Number(process.env.FAST_SCRIPT_STEPS ?? 8000);
const FIRST_SEED = Number(process.env.DIFFERENTIAL_SEED ?? 1);
const AT_ONCE = 20;
const STEPS_PER_TRACE = 500;
const START_MS = 1_745_000_100_000;
const KEYS = ['a', 'b', 'c'];
const ALGORITHMS: readonly WindowAlgorithmName[] = [
  'fixed-window',
  'sliding-log',
  'sliding-counter',
  'sliding-buckets',
  'token-bucket',
];

/** Returns the pairs of keys whose values or TTLs differ. TTLs of a batch may differ by 1 s. */
const COMPARE = `
local function valueOf(key)
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' then return redis.call('GET', key) end
  if kind == 'none' then return '' end
  local fields, parts = redis.call('HGETALL', key), {}
  for place = 1, #fields, 2 do parts[#parts + 1] = fields[place] .. '=' .. fields[place + 1] end
  table.sort(parts)
  return table.concat(parts, ',')
end
local different = {}
for place = 1, #KEYS, 2 do
  local one, other = KEYS[place], KEYS[place + 1]
  local isNear = math.abs(redis.call('PTTL', one) - redis.call('PTTL', other)) < 1000
  if valueOf(one) ~= valueOf(other) or not isNear then different[#different + 1] = one end
end
return different`;

const counts = { steps: 0, handedOver: 0, admitted: 0, denied: 0 };

/** Sends a command and returns the result of each operation. */
async function run(
  operations: readonly RedisOperation[],
  nowMs: number,
  build: typeof buildFastCommand,
): Promise<unknown[]> {
  const { script, args } = build(operations, nowMs);
  const [key] = operations[0].keys;
  const value = await world
    .send(args, key)
    .catch(() => world.send(['EVAL', script.text, ...args.slice(2)], key));
  const reply = new Reply(value, 0);
  return operations.map((operation) => {
    try {
      return JSON.stringify(operation.read(reply));
    } catch (error) {
      return error instanceof HandedOver ? error : String(error);
    }
  });
}

/** Runs checks by the fast script, and by the general script those that are handed over. */
async function runFast(operations: readonly RedisOperation[], nowMs: number): Promise<unknown[]> {
  const results = await run(operations, nowMs, buildFastCommand);
  const handedOver = operations.filter((_, place) => results[place] instanceof HandedOver);
  if (handedOver.length === 0) return results;
  counts.handedOver += handedOver.length;
  const rest = await run(handedOver, nowMs, buildGeneralCommand);
  return results.map((result) => (result instanceof HandedOver ? rest.shift() : result));
}

/** The policies of a trace: their limits differ, but they have the same keys in Redis. */
function policiesFrom(
  dice: Dice,
  algorithm: WindowAlgorithmName,
  isLong: boolean,
): readonly Policy[] {
  const short = [1, 7, 100, 1000, 60_000, 86_400_000, 58 * 86_400_000];
  const window = dice.pick(isLong ? [1000, 20_000, 58 * 86_400_000] : short);
  const most = Math.floor(Number.MAX_SAFE_INTEGER / window);
  const buckets = isLong ? 1000 : dice.pick([1, 2, 6, 60, 1000]);
  const limits = isLong
    ? [300, 900]
    : [dice.pick([1, 3, 10, 40, 300, 2 ** 31, 2 ** 45]), dice.pick([5, 60, 900])];
  return limits.map((each) => {
    const limit = Math.min(each, most);
    const option =
      algorithm === 'sliding-buckets'
        ? { buckets }
        : algorithm === 'token-bucket' && each % 2 === 0
          ? { burst: Math.min(3 * limit, most) }
          : {};
    return definePolicy('p', { limit, window, algorithm, ...option });
  });
}

class TraceRun {
  readonly #dice: Dice;
  readonly #policies: readonly Policy[];
  readonly #names: readonly [KeyNames, KeyNames];
  readonly #charges: { key: string; atMs: number; cost: number }[] = [];
  /** Makes logs long enough to become hashes: small costs, all to one key. */
  readonly #isLong: boolean;
  readonly #pace: number;
  #nowMs = START_MS;

  constructor(seed: number, algorithm: WindowAlgorithmName) {
    this.#dice = new Dice(seed);
    this.#isLong = seed % 2 === 0;
    this.#policies = policiesFrom(this.#dice, algorithm, this.#isLong);
    this.#names = [new KeyNames(`fast${seed}:`), new KeyNames(`general${seed}:`)];
    this.#pace = this.#dice.pick(this.#isLong ? [100, 400] : [1, 40, 400, 4000]);
  }

  /** Runs the steps. Returns the first difference, or undefined. */
  async run(steps: number): Promise<string | undefined> {
    for (let done = 0; done < steps; ) {
      this.#moveClock();
      const isAdjusted = this.#charges.length > 0 && this.#dice.roll(6) === 0;
      const pairs = isAdjusted ? [this.#adjustment()] : this.#checks();
      done += pairs.length;
      counts.steps += pairs.length;
      const found = await this.#compare(pairs, isAdjusted);
      if (found !== undefined) return `after ${done} steps: ${found}`;
    }
    return undefined;
  }

  #moveClock(): void {
    const [dice, { windowMs }] = [this.#dice, this.#policies[0]];
    const kind = dice.roll(this.#isLong ? 400 : 40);
    if (kind === 0) this.#nowMs -= dice.roll(Math.min(windowMs, 10_000_000));
    else if (kind === 1) this.#nowMs += dice.roll(3) * windowMs;
    else if (kind === 2) this.#nowMs -= dice.roll(3) * Math.min(windowMs, 10_000_000);
    else if (kind > 10 || this.#isLong)
      this.#nowMs += dice.roll(Math.ceil(windowMs / this.#pace) + 1);
    this.#nowMs = Math.max(this.#nowMs, 0);
  }

  #pair<T extends RedisOperation>(
    policy: Policy,
    key: string,
    create: (keys: readonly string[]) => T,
  ): readonly [T, T] {
    const [fast, general] = this.#names.map((names) => create([names.of(policy, key)]));
    return [fast, general];
  }

  #checks(): (readonly [RedisOperation, RedisOperation])[] {
    const dice = this.#dice;
    const isUniform = dice.roll(2) === 0;
    const policy = dice.pick(this.#policies);
    const cost = this.#costFor(policy);
    const length = 1 + dice.roll(this.#isLong ? 2 : dice.pick([1, 4, 24]));
    return Array.from({ length }, () => {
      const own = isUniform ? policy : dice.pick(this.#policies);
      const key = this.#isLong ? 'long' : dice.pick(KEYS);
      const kind = !isUniform && dice.roll(5) === 0 ? 'peek' : 'check';
      const limit = {
        policy: own,
        params: own.params!,
        key,
        cost: isUniform ? cost : this.#costFor(own) - (kind === 'peek' ? dice.roll(2) : 0),
      };
      return this.#pair(own, key, (keys) => new CheckOperation(kind, [limit], keys, undefined));
    });
  }

  #costFor(policy: Policy): number {
    const { capacity } = policy.params!;
    if (this.#isLong && this.#dice.roll(50) > 0) return 1 + this.#dice.roll(2);
    const cost = this.#dice.pick([1, 1, 1, 2, 5, capacity, 1 + this.#dice.roll(capacity)]);
    return Math.min(cost, capacity);
  }

  /** Refunds or settles a charge, also past the limit. */
  #adjustment(): readonly [RedisOperation, RedisOperation] {
    const dice = this.#dice;
    const { key, atMs, cost } = this.#charges.splice(dice.roll(this.#charges.length), 1)[0];
    const policy = dice.pick(this.#policies);
    // Rarely a debt, after which all calls are denied for a window.
    const isDebt = dice.roll(this.#isLong ? 200 : 20) === 0;
    const delta = isDebt ? dice.pick([dice.roll(100_000), 2 ** 40]) : dice.pick([-cost, -1, 1]);
    const limit = { policy, params: policy.params!, key, cost: 0 };
    const change = ` ${atMs} ${delta} ${cost}`;
    const create = (keys: readonly string[]) =>
      new NumberOperation('adjust', [limit], keys, '', undefined, [change]);
    return this.#pair(policy, key, create);
  }

  async #compare(
    pairs: readonly (readonly [RedisOperation, RedisOperation])[],
    isAdjusted: boolean,
  ): Promise<string | undefined> {
    const [own, other] = [pairs.map(([fast]) => fast), pairs.map(([, general]) => general)];
    const [fast, general] = await Promise.all([
      isAdjusted ? run(own, this.#nowMs, buildGeneralCommand) : runFast(own, this.#nowMs),
      run(other, this.#nowMs, buildGeneralCommand),
    ]);
    for (const [place, expected] of general.entries()) {
      if (fast[place] !== expected)
        return `${describeStep(own[place])}: ${fast[place]}, ${expected}`;
      if (!isAdjusted) this.#count(own[place], String(expected));
    }
    const keys = pairs.flatMap(([a, b]) => [a.keys[0], b.keys[0]]);
    const different = (await world.send(
      ['EVAL', COMPARE, String(keys.length), ...keys],
      keys[0],
    )) as string[];
    if (different.length === 0) return undefined;
    return `stored bytes or TTL of ${different[0]} after ${own.map(describeStep).join('; ')}`;
  }

  #count({ kind, limits }: RedisOperation, result: string): void {
    const [{ allowed, atMs, cost, key }] = JSON.parse(result);
    counts[allowed ? 'admitted' : 'denied']++;
    if (kind !== 'check' || !allowed || limits[0].cost === 0) return;
    if (this.#charges.length < 50) this.#charges.push({ key, atMs, cost });
  }
}

const describeStep = ({
  kind,
  keys,
  limits: [{ params, cost }],
  changes,
}: RedisOperation): string =>
  `${kind} ${keys[0]} ${JSON.stringify(params)} cost ${cost}${changes.join()}`;

describe('fast scripts', () => {
  it(`fast and general scripts have equal replies and bytes on ${STEPS} random steps`, async () => {
    const traces = Math.ceil(STEPS / STEPS_PER_TRACE);
    for (let done = 0; done < traces; done += AT_ONCE) {
      const seeds = Array.from({ length: Math.min(AT_ONCE, traces - done) }, (_, at) => done + at);
      const found = await Promise.all(
        seeds.map(async (place) => {
          const algorithm = ALGORITHMS[place % ALGORITHMS.length];
          const seed = FIRST_SEED + place;
          const what = await new TraceRun(seed, algorithm).run(STEPS_PER_TRACE);
          return what === undefined ? [] : [`${algorithm}, seed ${seed}, ${what}`];
        }),
      );
      expect(found.flat()).toEqual([]);
      if (STEPS > 100_000 && (done / AT_ONCE) % 10 === 0) console.log(JSON.stringify(counts));
      await world.server.command('FLUSHALL');
    }
    // Asserts that the comparison covered what it is for.
    expect(counts.steps).toBeGreaterThanOrEqual(STEPS);
    expect(counts.admitted).toBeGreaterThan(STEPS / 10);
    expect(counts.denied).toBeGreaterThan(STEPS / 20);
    expect(counts.handedOver).toBeGreaterThan(0);
    expect(counts.handedOver).toBeLessThan(STEPS / 5);
    console.log(JSON.stringify(counts));
  });
});
