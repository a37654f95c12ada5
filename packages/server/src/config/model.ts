/**
 * The parsed configuration: validated plain data. Sluice's own files and files of
 * envoyproxy/ratelimit result in the same types.
 */
import type { PolicyOptions } from 'sluice';

/**
 * A policy. Counters are identified by the policy's name, algorithm and window, so they survive a
 * change of the limit.
 */
export interface PolicyConfig {
  readonly name: string;
  /** The limit is a number, not a function of the key: limits of single keys are overrides. */
  readonly options: PolicyOptions & ({ readonly limit: number } | { readonly concurrency: number });
  /** Shadow mode: decisions are reported, but not enforced. */
  readonly shadow: boolean;
}

/**
 * A part of a key. The first source with a value is used. If no source has a value, the part is
 * empty, so all requests without a value share one key.
 */
export interface KeyPart {
  readonly sources: readonly KeySource[];
}

export type KeySource =
  /** The client's address, according to the trusted proxies. */
  | { readonly from: 'address' }
  | { readonly from: 'method' | 'path' | 'host' }
  | { readonly from: 'header' | 'cookie' | 'query' | 'descriptor'; readonly name: string }
  | { readonly from: 'text'; readonly text: string };

/** One limit of a rule: a policy, the key, and the cost of a request. */
export interface RuleLimit {
  readonly policy: string;
  readonly key: readonly KeyPart[];
  /** Default 1. Not set if `operation` is set. */
  readonly cost?: number;
  /** The name of one of the policy's costs. */
  readonly operation?: string;
  /** The cost of `operation`. */
  readonly weight?: number;
}

/**
 * The requests that a rule applies to. All fields have to match. `*` matches any characters. In a
 * path, `*` stops at the next `/`, and `**` does not.
 */
export interface RequestMatch {
  readonly kind: 'request';
  readonly path?: readonly string[];
  /** Whether paths are case-sensitive. Default: they are not. */
  readonly caseSensitive?: true;
  readonly method?: readonly string[];
  readonly host?: readonly string[];
  /** Patterns for header values, by header name in lower case. `*` matches any value. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Descriptors with exactly these entries, in any order. */
export interface DescriptorMatch {
  readonly kind: 'descriptor';
  readonly domain: string;
  readonly entries: Readonly<Record<string, string>>;
}

/**
 * A rule. The first rule that matches a request applies. If that rule has `goOn`, later rules can
 * apply as well.
 */
export interface RuleConfig {
  readonly name: string;
  readonly match: RequestMatch | DescriptorMatch;
  /** The limits are checked atomically: all are charged, or none. An empty list means unlimited. */
  readonly limits: readonly RuleLimit[];
  /** Whether later rules add their limits: `continue` in the file. */
  readonly goOn: boolean;
}

/**
 * Maximum limit of an override. A sliding log stores counts in 32 bits, unless the limit of its
 * policy needs more.
 */
export const MAX_OVERRIDE = 2 ** 31 - 1;

/** An override: the limit of one key, or of all keys that a pattern with `*` matches. */
export interface OverrideConfig {
  readonly policy: string;
  readonly key: string;
  readonly limit: number;
  /** The override ends at this time. */
  readonly expiresAtMs?: number;
  /** Why the override exists. */
  readonly reason?: string;
}

/** A domain of envoyproxy/ratelimit: a tree of descriptors. */
export interface DomainConfig {
  readonly domain: string;
  readonly descriptors: readonly DescriptorConfig[];
}

export interface DescriptorConfig {
  readonly key: string;
  /** `*` matches any characters. If undefined, any value matches and has its own counter. */
  readonly value?: string;
  /** Whether all values that match the `*` share one counter, also in child descriptors. */
  readonly shared?: boolean;
  readonly limit?: DescriptorLimit;
  readonly descriptors: readonly DescriptorConfig[];
  /** Plain data that is sent to Envoy while the descriptor is within its limit. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

interface NamedLimit {
  /** The name of this limit in the `replaces` lists of other limits. */
  readonly name?: string;
  /** Names of limits that do not apply to a request if this limit applies. */
  readonly replaces: readonly string[];
}

interface EnforcedLimit extends NamedLimit {
  readonly unlimited: false;
  /** A soft limit: a request is denied only if all its soft limits are exceeded. */
  readonly quota?: boolean;
}

/**
 * The limit of a descriptor. A limit with `requests_per_unit: 0` becomes `blocked`: its requests
 * are denied without a call of the store, because the library has no limit of 0.
 */
export type DescriptorLimit =
  | (NamedLimit & { readonly unlimited: true })
  | (EnforcedLimit & {
      readonly blocked?: false;
      /** The name of a policy in `Config.policies`. */
      readonly policy: string;
    })
  | (EnforcedLimit & {
      /** All requests are denied, including requests of cost 0. */
      readonly blocked: true;
      /** A name for reports only. `Config.policies` does not contain it. */
      readonly policy: string;
      readonly windowMs: number;
      readonly shadow: boolean;
    });

/** The configuration of all files. */
export interface Config {
  readonly files: readonly string[];
  /** The entries of `policies`, and one policy for each limit of a domain. */
  readonly policies: readonly PolicyConfig[];
  readonly rules: readonly RuleConfig[];
  readonly domains: readonly DomainConfig[];
  readonly overrides: readonly OverrideConfig[];
  /** Warnings about valid values that are probably mistakes, such as keys that clients choose. */
  readonly warnings: readonly ConfigProblem[];
  /**
   * Settings of the file, by their names in `settings.ts`, with the values as written in the file.
   */
  readonly settings: Readonly<Record<string, unknown>>;
}

/** A problem and its position in a file. Line and column start at 1. */
export interface ConfigProblem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Has the form "Expected ..., got ...". */
  readonly message: string;
}

/** Returns a problem as text: `sluice.yaml:3:5: Expected ...`. */
export const problemText = ({ file, line, column, message }: ConfigProblem): string =>
  `${file}:${line}:${column}: ${message}`;

/**
 * Thrown if the files have problems; contains all of them. The configuration in use stays
 * unchanged.
 */
export class ConfigError extends Error {
  constructor(readonly problems: readonly ConfigProblem[]) {
    super(problems.map(problemText).join('\n'));
    this.name = 'ConfigError';
  }
}
