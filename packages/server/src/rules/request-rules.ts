/** Finds the limits of a request by the rules of the configuration. */
import { MAX_LIMITS } from 'sluice/engine';
import { AmbiguousRequest } from '../ambiguous-request.ts';
import type { RequestMatch, RuleConfig, RuleLimit } from '../config/model.ts';
import type { LimitRequest } from '../decision-service.ts';
import { runToEnd } from '../slices.ts';
import { matchesWildcard } from '../wildcard.ts';
import { casedReadingsOf, hasOneReading, isPlain, readingsOf } from './path-readings.ts';
import type { RequestAttributes } from './request-attributes.ts';
import { type KeyReader, keyReader } from './request-keys.ts';
import { casedPath, normalPath, PathPattern } from './request-path.ts';

export class RequestRules {
  /** Indexes of rules with a path without wildcards, by this path. */
  readonly #exact = new Map<string, number[]>();
  /** Indexes of rules with patterns, by the first segment of the pattern. */
  readonly #bySegment = new Map<string, number[]>();
  /** Indexes of rules that can match any path. */
  readonly #anywhere: number[] = [];
  /** Whether a rule has case-sensitive paths. */
  #isCased = false;
  readonly #compiled: CompiledRule[] = [];
  /** Cached lists of rules by path or by first segment, up to `MAX_CACHED_RULES`. */
  readonly #candidates = new Map<string, readonly CompiledRule[]>();
  #cachedRules = 0;

  /** `run` runs the generator that prepares the rules. Default: runs it without pauses. */
  constructor(
    readonly rules: readonly RuleConfig[],
    run: (work: Generator<void, void>) => void = runToEnd,
  ) {
    run(this.#prepare());
  }

  /** Builds the rules in slices: yields after each rule. */
  static *building(rules: readonly RuleConfig[]): Generator<void, RequestRules> {
    let work: Generator<void, void> | undefined;
    const built = new RequestRules(rules, (given) => {
      work = given;
    });
    yield* work!;
    return built;
  }

  *#prepare(): Generator<void, void> {
    for (const rule of this.rules) {
      if (rule.match.kind === 'request') {
        this.#compiled.push(new CompiledRule(rule, rule.match));
        this.#isCased ||= rule.match.caseSensitive === true;
      }
      yield;
    }
    for (const [place, rule] of this.#compiled.entries()) {
      if (rule.matchesAnySegment) this.#anywhere.push(place);
      for (const { isExact, prefix, firstSegment } of rule.paths ?? []) {
        if (isExact) addPlace(this.#exact, prefix, place);
        else if (firstSegment !== undefined) addPlace(this.#bySegment, firstSegment, place);
      }
      yield;
    }
  }

  /**
   * Returns the limits of the first rule that matches. If that rule has `continue`, adds the limits
   * of the next rule that matches, and so on. Returns undefined if no rule matches. The same limit
   * for the same key counts once, with the cost of the first rule.
   *
   * If applications may read the path in several ways, returns the limits of all readings, each
   * with its highest cost. So the request is counted whichever reading the application uses.
   */
  limitsFor(attributes: RequestAttributes): readonly LimitRequest[] | undefined {
    const { path } = attributes;
    if (isPlain(path)) return this.#limitsOf(new NormalizedRequest(attributes, path, path));
    if (hasOneReading(path))
      return this.#limitsOf(new NormalizedRequest(attributes, normalPath(path), path));
    let all: LimitRequest[] | undefined;
    const weights = new Map<LimitRequest, number>();
    for (const reading of this.#isCased ? casedReadingsOf(path) : readingsOf(path)) {
      const normal = new NormalizedRequest(attributes, reading.toLowerCase(), reading);
      const found = this.#limitsOf(normal, weights);
      if (found !== undefined) all = all === undefined ? found : mergeLimits(all, found, weights);
    }
    return all;
  }

  /** Returns the limits of one reading. Stores the cost of each limit in `weights`. */
  #limitsOf(
    normal: NormalizedRequest,
    weights?: Map<LimitRequest, number>,
  ): LimitRequest[] | undefined {
    const isExact = this.#exact.size > 0 && this.#exact.has(normal.path);
    const rules = isExact ? this.#forExact(normal.path) : this.#forSegment(normal.path);
    let found: LimitRequest[] | undefined;
    for (const rule of rules) {
      if (!isExact && !rule.matchesPath(normal.path)) continue;
      if (!rule.matchesRest(normal)) continue;
      found ??= [];
      for (const limit of rule.limits) {
        const request = limit.requestFor(normal);
        weights?.set(request, limit.weight);
        addLimit(found, request);
      }
      if (!rule.goOn) break;
    }
    return found;
  }

  /** Returns the rules that match a path, if a rule has exactly this path. */
  #forExact(path: string): readonly CompiledRule[] {
    const id = `=${path}`;
    const known = this.#candidates.get(id);
    if (known !== undefined) return known;
    const lists = [this.#exact.get(path), this.#bySegment.get(segmentOf(path))];
    return this.#join(id, lists, (rule) => rule.matchesPath(path));
  }

  /** Returns the rules that may match a path, if no rule has exactly this path. */
  #forSegment(path: string): readonly CompiledRule[] {
    const segment = this.#bySegment.size === 0 ? '' : segmentOf(path);
    const places = this.#bySegment.get(segment);
    const id = places === undefined ? '' : segment;
    return this.#candidates.get(id) ?? this.#join(id, [places]);
  }

  /** Returns the rules of the lists and the rules for any path, in the order of the file. */
  #join(
    id: string,
    lists: readonly (readonly number[] | undefined)[],
    isKept: (rule: CompiledRule) => boolean = () => true,
  ): readonly CompiledRule[] {
    const places = new Set([...lists.flatMap((list) => list ?? []), ...this.#anywhere]);
    const sorted = [...places].sort((a, b) => a - b);
    const rules = sorted.map((place) => this.#compiled[place]).filter(isKept);
    // The cache is bounded, because lists for all paths could take more memory than the rules
    // themselves.
    if (this.#cachedRules + rules.length <= MAX_CACHED_RULES) {
      this.#cachedRules += rules.length;
      this.#candidates.set(id, rules);
    }
    return rules;
  }
}

/** Maximum number of rules in all cached lists together. Each rule in a list takes 8 bytes. */
const MAX_CACHED_RULES = 1_000_000;

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
  // `limit-count.ts` finds most configurations with too many limits at load, but not all. The
  // request is rejected, because dropping a limit would leave it unenforced.
  if (limits.length >= MAX_LIMITS) throw tooManyLimits('rules');
  limits.push(limit);
}

const tooManyLimits = (what: string): AmbiguousRequest =>
  new AmbiguousRequest(`Expected ${what} with at most ${MAX_LIMITS} limits, got more`);

/** Merges the limits of two readings; throws an `AmbiguousRequest` if there are too many. */
function mergeLimits(
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

/** Whether policy and key are equal. Equal keys are either both text or both lists of parts. */
function isSame(a: LimitRequest, b: LimitRequest): boolean {
  if (a.policy !== b.policy || a.key.length !== b.key.length) return false;
  if (typeof a.key === 'string' || typeof b.key === 'string') return a.key === b.key;
  return a.key.every((part, at) => part === b.key[at]);
}

class CompiledLimit {
  /** The cost of a request. */
  readonly weight: number;
  readonly #limit: RuleLimit;
  readonly #keyOf: KeyReader;

  constructor(limit: RuleLimit) {
    this.#limit = limit;
    this.#keyOf = keyReader(limit.key);
    this.weight = limit.weight ?? limit.cost ?? 1;
  }

  requestFor(attributes: RequestAttributes): LimitRequest {
    const { policy, cost, operation } = this.#limit;
    return { policy, key: this.#keyOf(attributes), cost, operation };
  }
}

class CompiledRule {
  readonly limits: readonly CompiledLimit[];
  readonly goOn: boolean;
  readonly paths: readonly PathPattern[] | undefined;
  /** The case-sensitive patterns, if the rule has any. */
  readonly #casedPaths: readonly PathPattern[] | undefined;
  readonly #methods: readonly string[] | undefined;
  readonly #hosts: readonly string[] | undefined;
  readonly #headers: readonly (readonly [name: string, pattern: string])[];

  constructor({ limits, goOn }: RuleConfig, match: RequestMatch) {
    this.limits = limits.map((limit) => new CompiledLimit(limit));
    this.goOn = goOn;
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

  /** Whether the rule can match paths with any first segment. */
  get matchesAnySegment(): boolean {
    if (this.paths === undefined) return true;
    return this.paths.some(({ isExact, firstSegment }) => !isExact && firstSegment === undefined);
  }

  matchesPath(path: string): boolean {
    return this.paths === undefined || this.paths.some((pattern) => pattern.matches(path));
  }

  /** Whether the case-sensitive path, method, host and headers match. */
  matchesRest(attributes: NormalizedRequest): boolean {
    return (
      (this.#casedPaths === undefined || attributes.matchesCased(this.#casedPaths)) &&
      (this.#methods === undefined || matchesAny(this.#methods, attributes.method)) &&
      (this.#hosts === undefined || matchesAny(this.#hosts, attributes.host)) &&
      this.#headers.every(([name, pattern]) => {
        const value = attributes.header(name);
        return value !== undefined && matchesWildcard(pattern, value);
      })
    );
  }
}

const matchesAny = (patterns: readonly string[], text: string): boolean =>
  patterns.some((pattern) => matchesWildcard(pattern, text));

/**
 * Returns the methods that a rule matches. GET includes HEAD, because a HEAD request causes as much
 * work in an application.
 */
function methodsOf(method: string): readonly string[] {
  const name = method.toUpperCase();
  return name === 'GET' ? ['GET', 'HEAD'] : [name];
}

/** Returns the host in lower case, without port and trailing dots. */
function normalHost(host: string): string {
  return PLAIN_HOST.test(host)
    ? host
    : host
        .toLowerCase()
        .replace(/(?::\d*)?$/, '')
        .replace(/\.+$/, '');
}

const PLAIN_HOST = /^[a-z\d-]+(?:\.[a-z\d-]+)*$/;

/** A request with normalized method, path and host. */
class NormalizedRequest implements RequestAttributes {
  readonly path: string;
  readonly #attributes: RequestAttributes;
  readonly #casedReading: string;

  /**
   * `casedReading` is the reading with its case preserved. If the path has only one reading,
   * `casedReading` is the raw path.
   */
  constructor(attributes: RequestAttributes, path: string, casedReading: string) {
    this.#attributes = attributes;
    this.path = path;
    this.#casedReading = casedReading;
  }

  matchesCased(patterns: readonly PathPattern[]): boolean {
    const path = hasOneReading(this.#casedReading)
      ? casedPath(this.#casedReading)
      : this.#casedReading;
    return patterns.some((pattern) => pattern.matches(path));
  }

  get method(): string {
    return this.#attributes.method.toUpperCase();
  }

  get host(): string {
    return normalHost(this.#attributes.host);
  }

  get search(): string {
    return this.#attributes.search;
  }

  header(name: string): string | undefined {
    return this.#attributes.header(name);
  }

  address(): string {
    return this.#attributes.address();
  }
}
