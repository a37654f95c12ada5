/**
 * The parsed configuration: validated plain data in one form, for Sluice's own files and those of
 * envoyproxy/ratelimit.
 */
import type { PolicyOptions } from 'sluice';

/** Counters belong to the name of a policy, so they survive a change of its limit. */
export interface PolicyConfig {
  readonly name: string;
  /** The limit is a number: limits of single keys are overrides. */
  readonly options: PolicyOptions & { readonly limit: number };
  /** Shadow mode: decisions are reported, but not enforced. */
  readonly shadow: boolean;
}

/**
 * A part of a key. The first source with a value is used. If none has a value the part is empty,
 * so that all such requests share one key.
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
  /** Default 1. Not together with `operation`. */
  readonly cost?: number;
  /** The name of one of the policy's costs. */
  readonly operation?: string;
  /** The cost of `operation`. */
  readonly weight?: number;
}

/**
 * Requests that a rule applies to. All fields have to match. `*` in a text matches any characters;
 * in a path it stops at `/`, and `**` does not.
 */
export interface RequestMatch {
  readonly kind: 'request';
  readonly path?: readonly string[];
  /** Whether paths are case-sensitive. Default: they are not. */
  readonly caseSensitive?: true;
  readonly method?: readonly string[];
  readonly host?: readonly string[];
  /** By lower-case name; `*` matches any value. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** Descriptors with exactly these entries, in any order. */
export interface DescriptorMatch {
  readonly kind: 'descriptor';
  readonly domain: string;
  readonly entries: Readonly<Record<string, string>>;
}

/** The first rule that matches applies. With `goOn`, later rules can apply as well. */
export interface RuleConfig {
  readonly name: string;
  readonly match: RequestMatch | DescriptorMatch;
  /** Checked together: all are charged, or none. An empty list means unlimited. */
  readonly limits: readonly RuleLimit[];
  /** Whether later rules add their limits. */
  readonly goOn: boolean;
}

/** Largest limit of an override: entries have 32 bits unless the limit of the policy needs more. */
export const MAX_OVERRIDE = 2 ** 31 - 1;

/** The limit of one key, or of all keys that a pattern with `*` matches. */
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
  /** `*` matches any characters. Without a value: any value, each with its own counter. */
  readonly value?: string;
  /** Whether all values that match the `*` share one counter, here and in children. */
  readonly shared?: boolean;
  readonly limit?: DescriptorLimit;
  readonly descriptors: readonly DescriptorConfig[];
  /** Plain data that is sent to Envoy while the descriptor is within its limit. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

interface NamedLimit {
  /** The name that `replaces` elsewhere refers to. */
  readonly name?: string;
  readonly replaces: readonly string[];
}

interface EnforcedLimit extends NamedLimit {
  readonly unlimited: false;
  /** A soft limit: a request is denied only if all its soft limits are exceeded. */
  readonly quota?: boolean;
}

/** `requests_per_unit: 0` is `blocked`: the library has no limit of 0, so no store is called. */
export type DescriptorLimit =
  | (NamedLimit & { readonly unlimited: true })
  | (EnforcedLimit & {
      readonly blocked?: false;
      /** The name among `policies`. */
      readonly policy: string;
    })
  | (EnforcedLimit & {
      /** All requests are denied, including those of cost 0. */
      readonly blocked: true;
      /** For reports only; it is not among `policies`. */
      readonly policy: string;
      readonly windowMs: number;
      readonly shadow: boolean;
    });

/** The configuration of all files. */
export interface Config {
  readonly files: readonly string[];
  /** Those under `policies`, and one for each limit of a domain. */
  readonly policies: readonly PolicyConfig[];
  readonly rules: readonly RuleConfig[];
  readonly domains: readonly DomainConfig[];
  readonly overrides: readonly OverrideConfig[];
  /** Valid, but probably mistakes, such as keys that clients can choose. */
  readonly warnings: readonly ConfigProblem[];
  /** Settings in the file, by their names in `settings.ts`, as written. */
  readonly settings: Readonly<Record<string, unknown>>;
}

/** A problem at a position. Line and column start at 1. */
export interface ConfigProblem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Reads "Expected ..., got ...". */
  readonly message: string;
}

/** Returns `sluice.yaml:3:5: Expected ...`. */
export const problemText = ({ file, line, column, message }: ConfigProblem): string =>
  `${file}:${line}:${column}: ${message}`;

/** All problems of the files. The configuration in use is unchanged. */
export class ConfigError extends Error {
  constructor(readonly problems: readonly ConfigProblem[]) {
    super(problems.map(problemText).join('\n'));
    this.name = 'ConfigError';
  }
}
