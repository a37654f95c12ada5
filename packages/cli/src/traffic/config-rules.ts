/**
 * Finds the limits that apply to each request of a log. If the configuration has rules, they select
 * the limits as in the service. Otherwise every policy applies to every request, with the client
 * address as key.
 */
import { definePolicy, type Limit, SluiceError } from 'sluice';
import {
  AmbiguousRequest,
  type Config,
  type LimitRequest,
  loadConfig,
  type OverrideConfig,
  Overrides,
  type RequestAttributes,
  RequestRules,
  SETTINGS,
  ServedPolicies,
} from 'sluice-server/configured';
import {
  clientNames,
  type Entry,
  factsOf,
  type NeverFits,
  type PolicyFacts,
  type Rules,
  rulesByClient,
} from 'sluice-traffic';
import { Failure, visible } from '../output.ts';

export interface ConfigRules extends Rules {
  /** Returns the name of the client of an entry, with the `ipv6Prefix` of the configuration. */
  readonly clientOf: (entry: Entry) => string;
  /** Returns the headers that the rules use but that no request had so far. */
  missingHeaders(): readonly string[];
}

/**
 * Loads a file or folder. Throws a `ConfigError` if it is invalid, or a `Failure` if all its rules
 * are descriptor rules.
 */
export async function loadRules(path: string): Promise<ConfigRules> {
  const config = await loadConfig([path]);
  const isOfRequests = config.rules.some(({ match }) => match.kind === 'request');
  if (!isOfRequests && (config.rules.length > 0 || config.domains.length > 0)) {
    throw new Failure(
      `Expected request rules in ${visible(path)}, got descriptor rules only. A log has no ` +
        'descriptors to match',
    );
  }
  const { ipv6Prefix } = config.settings;
  const nameOf = clientNames(
    ipv6Prefix === undefined ? undefined : SETTINGS.ipv6Prefix.read(ipv6Prefix),
  );
  const clientOf = ({ client }: Entry): string => nameOf(client);
  if (isOfRequests || config.overrides.length > 0) return new RulesOfConfig(config, clientOf);
  const policies = config.policies.map(({ name, options }) => definePolicy(name, options));
  const shadow = config.policies.filter((each) => each.shadow).map(({ name }) => name);
  return { ...rulesByClient(policies, new Set(shadow)), clientOf, missingHeaders: () => [] };
}

class RulesOfConfig implements ConfigRules {
  readonly policies: readonly PolicyFacts[];
  readonly clientOf: (entry: Entry) => string;
  readonly #overrides: TimedOverrides;
  readonly #served: ServedPolicies;
  readonly #rules: RequestRules | undefined;
  readonly #everyPolicy: readonly string[];
  /** The headers that the rules use, by name. The value is true if any request had the header. */
  readonly #headers = new Map<string, boolean>();

  constructor(config: Config, clientOf: (entry: Entry) => string) {
    this.clientOf = clientOf;
    this.#overrides = new TimedOverrides(config.overrides);
    this.#served = new ServedPolicies(config.policies, this.#overrides.overrides);
    const requestRules = config.rules.filter(({ match }) => match.kind === 'request');
    this.#rules = requestRules.length === 0 ? undefined : new RequestRules(requestRules);
    const limited = new Set(
      requestRules.flatMap(({ limits }) => limits.map(({ policy }) => policy)),
    );
    const used = config.policies.filter(
      ({ name }) => this.#rules === undefined || limited.has(name),
    );
    this.#everyPolicy = used.map(({ name }) => name);
    this.policies = used.map(({ name, options, shadow }) =>
      factsOf(definePolicy(name, options), shadow),
    );
  }

  limitsOf(entry: Entry, client: string, nowMs: number): readonly Limit[] | NeverFits {
    this.#overrides.moveTo(nowMs);
    const attributes = new EntryAttributes(entry, client, this.#headers);
    const requests =
      this.#rules === undefined
        ? this.#everyPolicy.map((policy) => ({ policy, key: [client] }))
        : requestsOf(this.#rules, attributes);
    const limits: Limit[] = [];
    const violated: string[] = [];
    for (const request of requests) {
      const limit = this.#limitOf(request, entry.cost);
      if (limit !== undefined) limits.push(limit);
      // A limit in shadow mode never denies.
      else if (!this.#served.isShadow(request.policy)) violated.push(request.policy);
    }
    return violated.length > 0 ? { violated } : limits;
  }

  /**
   * Returns the limit of a request. Returns undefined if the service would deny it: the rule's
   * cost exceeds the limit of the key, or the request has no key. A cost in the rule takes
   * precedence over the cost in the log.
   */
  #limitOf(request: LimitRequest, logged: number | undefined): Limit | undefined {
    const { policy, key, cost, operation } = request;
    try {
      const limit = this.#served.limit(policy, key, request, 1);
      const hasCost = cost !== undefined || operation !== undefined;
      // A cost from the log may exceed the limit: the replay denies it and also evaluates the
      // shadow limits.
      return hasCost || logged === undefined ? limit : { ...limit, cost: logged };
    } catch (error) {
      if (error instanceof SluiceError) return undefined;
      throw error;
    }
  }

  missingHeaders(): readonly string[] {
    return [...this.#headers].filter(([, isThere]) => !isThere).map(([name]) => name);
  }
}

/**
 * Returns the limits that the rules select. Returns none for an ambiguous request: the service
 * responds with 400 and charges nothing.
 */
function requestsOf(rules: RequestRules, attributes: RequestAttributes): readonly LimitRequest[] {
  try {
    return rules.limitsFor(attributes) ?? [];
  } catch (error) {
    if (error instanceof AmbiguousRequest) return [];
    throw error;
  }
}

/** Overrides that expire by the times of the log entries, not by the system clock. */
class TimedOverrides {
  readonly overrides = new Overrides();
  readonly #all: readonly OverrideConfig[];
  #nextMs = Number.NEGATIVE_INFINITY;

  constructor(all: readonly OverrideConfig[]) {
    this.#all = all;
  }

  moveTo(nowMs: number): void {
    if (nowMs < this.#nextMs) return;
    const current = this.#all.filter(({ expiresAtMs = Infinity }) => expiresAtMs > nowMs);
    this.overrides.useFile(current.map(({ expiresAtMs: _, ...lasting }) => lasting));
    this.#nextMs = Math.min(Infinity, ...current.map(({ expiresAtMs = Infinity }) => expiresAtMs));
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches anything but ASCII.
const NOT_ASCII = /[^\x00-\x7f]/;

/** Adapts a log entry to the request interface of the rules. */
class EntryAttributes implements RequestAttributes {
  readonly #entry: Entry;
  readonly #client: string;
  readonly #headers: Map<string, boolean>;

  constructor(entry: Entry, client: string, headers: Map<string, boolean>) {
    this.#entry = entry;
    this.#client = client;
    this.#headers = headers;
  }

  get method(): string {
    return this.#entry.method;
  }

  /** The path as the service receives it: in a header with one character per UTF-8 byte. */
  get path(): string {
    const { path } = this.#entry;
    return NOT_ASCII.test(path) ? Buffer.from(path).toString('latin1') : path;
  }

  get search(): string {
    return this.#entry.search;
  }

  get host(): string {
    return this.#entry.host;
  }

  header(name: string): string | undefined {
    const value = this.#entry.field(name);
    if (this.#headers.get(name) !== true) this.#headers.set(name, value !== undefined);
    return value;
  }

  address(): string {
    return this.#client;
  }
}
