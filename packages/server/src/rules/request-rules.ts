/** Which limits a request has: the rules of the configuration, applied to what a proxy reports. */
import { MAX_LIMITS } from 'sluice/engine';
import { AmbiguousRequest } from '../ambiguous-request.ts';
import type { RequestMatch, RuleConfig, RuleLimit } from '../config/model.ts';
import type { LimitRequest } from '../decision-service.ts';
import { atOnce } from '../slices.ts';
import { matchesWildcard } from '../wildcard.ts';
import { casedReadingsOf, hasOneReading, isPlain, readingsOf } from './path-readings.ts';
import type { RequestFacts } from './request-facts.ts';
import { type KeyReader, keyReader } from './request-keys.ts';
import { casedPath, normalPath, PathPattern } from './request-path.ts';

export class RequestRules {
  /** Places of rules by the paths that they name whole. */
  readonly #exact = new Map<string, number[]>();
  /** Places of rules with patterns, by the first segment that these begin with. */
  readonly #bySegment = new Map<string, number[]>();
  /** Places of rules that may be about any path. */
  readonly #elsewhere: number[] = [];
  /** Whether a rule tells paths apart by case. */
  #isCased = false;
  readonly #ready: ReadyRule[] = [];
  /** Lists of rules that were put together for a path or a segment, up to a bound. */
  readonly #joined = new Map<string, readonly ReadyRule[]>();
  #joinedRules = 0;

  /** `run` runs the work that makes the rules ready. Default: at once. */
  constructor(
    readonly rules: readonly RuleConfig[],
    run: (work: Generator<void, void>) => void = atOnce,
  ) {
    run(this.#prepare());
  }

  /** Makes rules in slices. */
  static *building(rules: readonly RuleConfig[]): Generator<void, RequestRules> {
    let work: Generator<void, void> | undefined;
    const made = new RequestRules(rules, (given) => {
      work = given;
    });
    yield* work!;
    return made;
  }

  *#prepare(): Generator<void, void> {
    for (const rule of this.rules) {
      if (rule.match.kind === 'request') {
        this.#ready.push(new ReadyRule(rule, rule.match));
        this.#isCased ||= rule.match.caseSensitive === true;
      }
      yield;
    }
    for (const [place, rule] of this.#ready.entries()) {
      if (rule.mayBeAnywhere) this.#elsewhere.push(place);
      for (const { isExact, prefix, firstSegment } of rule.paths ?? []) {
        if (isExact) addPlace(this.#exact, prefix, place);
        else if (firstSegment !== undefined) addPlace(this.#bySegment, firstSegment, place);
      }
      yield;
    }
  }

  /**
   * Returns the limits of the first rule that matches, and of those after it as long as they say
   * to go on; undefined if none matches. The same limit for the same key counts once, as the first
   * rule has it. If an application may read the path in several ways, returns the limits of all
   * readings, each with its highest cost, so no reading leaves the request uncounted.
   */
  limitsFor(facts: RequestFacts): readonly LimitRequest[] | undefined {
    const { path } = facts;
    if (isPlain(path)) return this.#limitsOf(new Normalised(facts, path, path));
    if (hasOneReading(path)) return this.#limitsOf(new Normalised(facts, normalPath(path), path));
    let all: LimitRequest[] | undefined;
    const weights = new Map<LimitRequest, number>();
    for (const reading of this.#isCased ? casedReadingsOf(path) : readingsOf(path)) {
      const normal = new Normalised(facts, reading.toLowerCase(), reading);
      const found = this.#limitsOf(normal, weights);
      if (found !== undefined) all = all === undefined ? found : merged(all, found, weights);
    }
    return all;
  }

  /** Returns the limits of one reading, and adds what each takes to `weights`. */
  #limitsOf(normal: Normalised, weights?: Map<LimitRequest, number>): LimitRequest[] | undefined {
    const isKnown = this.#exact.size > 0 && this.#exact.has(normal.path);
    const rules = isKnown ? this.#ofExact(normal.path) : this.#below(normal.path);
    let found: LimitRequest[] | undefined;
    for (const rule of rules) {
      if (!isKnown && !rule.fitsPath(normal.path)) continue;
      if (!rule.fitsRest(normal)) continue;
      found ??= [];
      for (const limit of rule.limits) {
        const request = limit.requestFor(normal);
        weights?.set(request, limit.weight);
        addLimit(found, request);
      }
      if (!rule.goesOn) break;
    }
    return found;
  }

  /** The rules about a path that some of them name whole. */
  #ofExact(path: string): readonly ReadyRule[] {
    const id = `=${path}`;
    const known = this.#joined.get(id);
    if (known !== undefined) return known;
    const lists = [this.#exact.get(path), this.#bySegment.get(segmentOf(path))];
    return this.#join(id, lists, (rule) => rule.fitsPath(path));
  }

  /** The rules that may be about any other path. */
  #below(path: string): readonly ReadyRule[] {
    const segment = this.#bySegment.size === 0 ? '' : segmentOf(path);
    const places = this.#bySegment.get(segment);
    const id = places === undefined ? '' : segment;
    return this.#joined.get(id) ?? this.#join(id, [places]);
  }

  /** Rules at these places and those that may be about any path, in the order of the file. */
  #join(
    id: string,
    lists: readonly (readonly number[] | undefined)[],
    isKept: (rule: ReadyRule) => boolean = () => true,
  ): readonly ReadyRule[] {
    const places = new Set([...lists.flatMap((list) => list ?? []), ...this.#elsewhere]);
    const sorted = [...places].sort((a, b) => a - b);
    const rules = sorted.map((place) => this.#ready[place]).filter(isKept);
    // Each path with its own list of many rules would be more than the rules themselves.
    if (this.#joinedRules + rules.length <= MAX_JOINED_RULES) {
      this.#joinedRules += rules.length;
      this.#joined.set(id, rules);
    }
    return rules;
  }
}

/** Rules in lists that are kept, 8 bytes each. */
const MAX_JOINED_RULES = 1_000_000;

function addPlace(byText: Map<string, number[]>, text: string, place: number): void {
  const places = byText.get(text);
  if (places === undefined) byText.set(text, [place]);
  else if (places.at(-1) !== place) places.push(place);
}

function segmentOf(path: string): string {
  const end = path.indexOf('/', 1);
  return end < 0 ? path : path.slice(0, end);
}

function addLimit(limits: LimitRequest[], limit: LimitRequest): void {
  for (const each of limits) if (isSame(each, limit)) return;
  // Most such rules are rejected when they are read. None is left out silently.
  if (limits.length >= MAX_LIMITS) throw tooManyLimits('rules');
  limits.push(limit);
}

const tooManyLimits = (what: string): AmbiguousRequest =>
  new AmbiguousRequest(`Expected ${what} with at most ${MAX_LIMITS} limits, got more`);

/** Joins the limits of two readings. Throws a 400 rather than leave one out. */
function merged(
  first: readonly LimitRequest[],
  second: readonly LimitRequest[],
  weights: ReadonlyMap<LimitRequest, number>,
): LimitRequest[] {
  const all = [...first];
  for (const limit of second) {
    const at = all.findIndex((each) => isSame(each, limit));
    if (at < 0) all.push(limit);
    else if (weights.get(all[at])! < weights.get(limit)!) all[at] = limit;
  }
  if (all.length <= MAX_LIMITS) return all;
  throw tooManyLimits('readings of the path');
}

/** The same key is always in the same form, since that depends on nothing but its parts. */
function isSame(a: LimitRequest, b: LimitRequest): boolean {
  if (a.policy !== b.policy || a.key.length !== b.key.length) return false;
  if (typeof a.key === 'string' || typeof b.key === 'string') return a.key === b.key;
  return a.key.every((part, at) => part === b.key[at]);
}

/** One limit of a rule, with its key ready to be read. */
class ReadyLimit {
  /** The units that a request takes. */
  readonly weight: number;
  readonly #limit: RuleLimit;
  readonly #keyOf: KeyReader;

  constructor(limit: RuleLimit) {
    this.#limit = limit;
    this.#keyOf = keyReader(limit.key);
    this.weight = limit.weight ?? limit.cost ?? 1;
  }

  requestFor(facts: RequestFacts): LimitRequest {
    const { policy, cost, operation } = this.#limit;
    return { policy, key: this.#keyOf(facts), cost, operation };
  }
}

/** A rule whose texts have been made ready for comparing. */
class ReadyRule {
  readonly limits: readonly ReadyLimit[];
  readonly goesOn: boolean;
  readonly paths: readonly PathPattern[] | undefined;
  /** The same with case, if that counts. */
  readonly #casedPaths: readonly PathPattern[] | undefined;
  readonly #methods: readonly string[] | undefined;
  readonly #hosts: readonly string[] | undefined;
  readonly #headers: readonly (readonly [name: string, pattern: string])[];

  constructor({ limits, goOn }: RuleConfig, match: RequestMatch) {
    this.limits = limits.map((limit) => new ReadyLimit(limit));
    this.goesOn = goOn;
    this.paths = match.path?.map((pattern) => new PathPattern(pattern));
    this.#casedPaths = match.caseSensitive
      ? match.path?.map((pattern) => new PathPattern(pattern, true))
      : undefined;
    this.#methods = match.method?.flatMap(methodsOf);
    this.#hosts = match.host?.map(normalHost);
    this.#headers = Object.entries(match.headers ?? {}).map(([name, pattern]) => [
      name.toLowerCase(),
      pattern,
    ]);
  }

  /** Whether it may match paths of any first segment. */
  get mayBeAnywhere(): boolean {
    if (this.paths === undefined) return true;
    return this.paths.some(({ isExact, firstSegment }) => !isExact && firstSegment === undefined);
  }

  fitsPath(path: string): boolean {
    return this.paths === undefined || this.paths.some((pattern) => pattern.fits(path));
  }

  /** Whether all that is said besides the path without case holds. */
  fitsRest(facts: Normalised): boolean {
    return (
      (this.#casedPaths === undefined || facts.fitsCased(this.#casedPaths)) &&
      (this.#methods === undefined || fitsOne(this.#methods, facts.method)) &&
      (this.#hosts === undefined || fitsOne(this.#hosts, facts.host)) &&
      this.#headers.every(([name, pattern]) => {
        const value = facts.header(name);
        return value !== undefined && matchesWildcard(pattern, value);
      })
    );
  }
}

const fitsOne = (patterns: readonly string[], text: string): boolean =>
  patterns.some((pattern) => matchesWildcard(pattern, text));

/** What answers GET answers HEAD as well, and takes as much trouble over it. */
function methodsOf(method: string): readonly string[] {
  const name = method.toUpperCase();
  return name === 'GET' ? ['GET', 'HEAD'] : [name];
}

/** In small letters, without the port and without dots at the end. */
function normalHost(host: string): string {
  return PLAIN_HOST.test(host)
    ? host
    : host
        .toLowerCase()
        .replace(/(?::\d*)?$/, '')
        .replace(/\.+$/, '');
}

const PLAIN_HOST = /^[a-z\d-]+(?:\.[a-z\d-]+)*$/;

/** What is known of a request, in the forms in which it is compared. */
class Normalised implements RequestFacts {
  readonly path: string;
  readonly #facts: RequestFacts;
  readonly #spelt: string;

  /** `spelt` is the reading with its case, or the path as it came if that is its only reading. */
  constructor(facts: RequestFacts, path: string, spelt: string) {
    this.#facts = facts;
    this.path = path;
    this.#spelt = spelt;
  }

  fitsCased(patterns: readonly PathPattern[]): boolean {
    const path = hasOneReading(this.#spelt) ? casedPath(this.#spelt) : this.#spelt;
    return patterns.some((pattern) => pattern.fits(path));
  }

  get method(): string {
    return this.#facts.method.toUpperCase();
  }

  get host(): string {
    return normalHost(this.#facts.host);
  }

  get search(): string {
    return this.#facts.search;
  }

  header(name: string): string | undefined {
    return this.#facts.header(name);
  }

  address(): string {
    return this.#facts.address();
  }
}
