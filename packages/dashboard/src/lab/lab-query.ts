/**
 * Formats the settings of the lab as the query of its URL, and parses the query. The query omits
 * settings with their default value and uses only characters that need no escaping. For an invalid
 * value, parsing returns the default and a notice.
 *
 *     drawn=0*12.5.9     12 slots without calls, then a slot with 5 calls and a slot with 9
 *     times=0*50_2000.3  50 calls at the start, then a call of cost 3 two seconds later
 */
import { durationCode, durationMs, windowAlgorithmNames } from 'sluice/engine';
import type { WindowAlgorithmName } from '../api/types.ts';
import { countText } from '../view/format.ts';
import {
  BOUNDS,
  DEFAULTS,
  isWithin,
  type LabSettings,
  MAX_CALLS,
  MAX_IN_SLOT,
  type NumberName,
  SLOTS,
  TRAFFIC_NAMES,
  type TypedCall,
} from './settings.ts';

export type LabQuery = Readonly<Record<string, string>>;

/** Maximum length of a query in a link: chat and mail programs truncate longer URLs. */
export const MAX_QUERY_LENGTH = 2000;

/** Name of each numeric setting in the query. */
const NUMBERS: Readonly<Record<NumberName, string>> = {
  ...{ seed: 'seed', calls: 'calls', windows: 'windows', startMs: 'start', cost: 'cost' },
  ...{ limit: 'limit', windowMs: 'window', burst: 'burst', buckets: 'buckets' },
};

/** Parses `1500` (ms), `10s`, `1 min` or `min` as milliseconds. Returns NaN for any other text. */
export function parseDuration(text: string): number {
  const word = text.trim().replace(/^(\d+) (?=\D)/, '$1');
  return /^\d{1,15}$/.test(word) ? Number(word) : durationMs(word);
}

const repeated = (text: string, count: number): string => (count === 1 ? text : `${text}*${count}`);

/** Returns the counts with run-length encoding, without trailing zeros. */
function slotsText(slots: readonly number[]): string {
  const last = slots.findLastIndex((count) => count > 0);
  const runs: { value: number; count: number }[] = [];
  for (const value of slots.slice(0, last + 1)) {
    const run = runs[runs.length - 1];
    if (run?.value === value) run.count++;
    else runs.push({ value, count: 1 });
  }
  return runs.map(({ value, count }) => repeated(String(value), count)).join('.');
}

/** Encodes calls with the time since the previous call. The first has the time since the start. */
function timesText(startMs: number, typed: readonly TypedCall[]): string {
  const groups: { sinceMs: number; cost: number; count: number }[] = [];
  let beforeMs = startMs;
  for (const { atMs, cost } of typed) {
    const last = groups[groups.length - 1];
    if (last !== undefined && atMs === beforeMs && cost === last.cost) last.count++;
    else groups.push({ sinceMs: atMs - beforeMs, cost, count: 1 });
    beforeMs = atMs;
  }
  return groups
    .map(({ sinceMs, cost, count }) =>
      repeated(cost === 1 ? `${sinceMs}` : `${sinceMs}.${cost}`, count),
    )
    .join('_');
}

export function formatLabQuery(settings: LabSettings): LabQuery {
  const query: Record<string, string> = {};
  const { traffic, against, algorithms, policy } = settings;
  if (traffic !== DEFAULTS.traffic) query.traffic = traffic;
  for (const [name, code] of Object.entries(NUMBERS) as [NumberName, string][]) {
    const value = settings[name];
    if (value === undefined || value === DEFAULTS[name]) continue;
    query[code] = name === 'windowMs' ? durationCode(value) : String(value);
  }
  if (traffic === 'adversary' && against !== DEFAULTS.against) query.against = against;
  if (traffic === 'drawn') query.drawn = slotsText(settings.slots);
  if (traffic === 'typed') query.times = timesText(settings.startMs, settings.typed);
  if (algorithms.length < windowAlgorithmNames.length) {
    query.algorithms = algorithms.join('.') || 'none';
  }
  if (policy !== DEFAULTS.policy) query.policy = policy;
  return query;
}

export const queryLength = (query: LabQuery): number =>
  new URLSearchParams(query).toString().length;

export interface ParsedLabQuery {
  readonly settings: LabSettings;
  /** Messages about invalid values. */
  readonly notices: readonly string[];
}

class Reader {
  readonly notices: string[] = [];
  readonly #query: LabQuery;

  constructor(query: LabQuery) {
    this.#query = query;
  }

  #reject(name: string, expected: string): void {
    const got = (this.#query[name] ?? '').slice(0, 40);
    this.notices.push(`Expected \`${name}\` to be ${expected}, got \`${got}\``);
  }

  number(name: NumberName): number | undefined {
    const code = NUMBERS[name];
    const text = this.#query[code];
    if (text === undefined) return DEFAULTS[name];
    const value =
      name === 'windowMs' ? parseDuration(text) : /^\d+$/.test(text) ? +text : Number.NaN;
    if (isWithin(name, value)) return value;
    const [least, most] = BOUNDS[name];
    const isTime = name === 'windowMs';
    const number = `a whole number from ${countText(least)} to ${countText(most)}`;
    this.#reject(code, isTime ? 'a duration such as 10s, up to 30d' : number);
    return DEFAULTS[name];
  }

  choice<T extends string>(name: string, fallback: T, known: readonly T[]): T {
    const text = this.#query[name];
    if (text === undefined) return fallback;
    const found = known.find((each) => each === text);
    if (found !== undefined) return found;
    this.#reject(name, `one of ${known.join(' ')}`);
    return fallback;
  }

  algorithms(): readonly WindowAlgorithmName[] {
    const text = this.#query.algorithms;
    if (text === undefined) return DEFAULTS.algorithms;
    const names = text.split('.');
    if (text === 'none') return [];
    const known = windowAlgorithmNames.filter((name) => names.includes(name));
    if (known.length === new Set(names).size) return known;
    this.#reject('algorithms', `a list such as ${windowAlgorithmNames.join('.')}`);
    return DEFAULTS.algorithms;
  }

  slots(): readonly number[] {
    const text = this.#query.drawn;
    const slots = text === undefined || text === '' ? [] : parseSlots(text);
    if (slots === undefined) {
      this.#reject('drawn', `up to ${SLOTS} counts from 0 to ${MAX_IN_SLOT}, as in 0*12.5`);
    }
    return Array.from({ length: SLOTS }, (_, at) => slots?.[at] ?? 0);
  }

  typed(startMs: number): readonly TypedCall[] {
    const text = this.#query.times;
    if (text === undefined || text === '') return [];
    const calls = parseTimes(text, startMs);
    if (calls !== undefined) return calls;
    this.#reject('times', `up to ${countText(MAX_CALLS)} calls, as in 0*50_2000.3`);
    return [];
  }
}

/**
 * Parses counts such as `0*12.5`. Returns undefined if a count or the number of slots is invalid.
 */
function parseSlots(text: string): readonly number[] | undefined {
  const slots: number[] = [];
  for (const run of text.split('.')) {
    const [, count, times = '1'] = /^(\d{1,5})(?:\*(\d{1,3}))?$/.exec(run) ?? [];
    const isWrong = count === undefined || Number(count) > MAX_IN_SLOT;
    if (isWrong || slots.length + Number(times) > SLOTS) return undefined;
    slots.push(...new Array<number>(Number(times)).fill(Number(count)));
  }
  return slots;
}

/**
 * Parses groups of simultaneous calls, such as `0*50_2000.3`. Returns undefined if a group is
 * invalid or there are more than `MAX_CALLS` calls.
 */
function parseTimes(text: string, startMs: number): readonly TypedCall[] | undefined {
  let atMs = startMs;
  let isWrong = false;
  const groups = text.split('_').map((group) => {
    const [, since, cost = '1', times = '1'] =
      /^(\d{1,15})(?:\.(\d{1,7}))?(?:\*(\d{1,6}))?$/.exec(group) ?? [];
    atMs += Number(since);
    isWrong ||= since === undefined || !isWithin('cost', Number(cost));
    return { atMs, cost: Number(cost), count: Number(times) };
  });
  const total = groups.reduce((sum, { count }) => sum + count, 0);
  if (isWrong || total > MAX_CALLS || !Number.isSafeInteger(atMs)) return undefined;
  return groups.flatMap(({ count, ...call }) => Array.from({ length: count }, () => call));
}

export function parseLabQuery(query: LabQuery): ParsedLabQuery {
  const reader = new Reader(query);
  const startMs = reader.number('startMs')!;
  const settings: LabSettings = {
    traffic: reader.choice('traffic', DEFAULTS.traffic, TRAFFIC_NAMES),
    seed: reader.number('seed')!,
    calls: reader.number('calls')!,
    windows: reader.number('windows')!,
    startMs,
    cost: reader.number('cost')!,
    against: reader.choice('against', DEFAULTS.against, windowAlgorithmNames),
    slots: reader.slots(),
    typed: reader.typed(startMs),
    limit: reader.number('limit')!,
    windowMs: reader.number('windowMs')!,
    burst: reader.number('burst'),
    buckets: reader.number('buckets')!,
    algorithms: reader.algorithms(),
    policy: reader.choice('policy', DEFAULTS.policy, windowAlgorithmNames),
  };
  return { settings, notices: reader.notices };
}
