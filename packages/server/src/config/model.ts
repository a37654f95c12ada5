/**
 * What configuration files come to, once read: plain data in one form, whichever the files had.
 * Everything in it has been checked; only the readers in this folder make it.
 */
import type { PolicyOptions } from 'sluice';

/** A policy as it is served. Counters go by its name, so they live on when its limit changes. */
export interface PolicyConfig {
  readonly name: string;
  /** What the engine needs to know. The limit is a number here: keys have overrides. */
  readonly options: PolicyOptions & { readonly limit: number };
  /** Decided and reported, but never in the way. */
  readonly shadow: boolean;
}

/**
 * Where a part of a key comes from. Sources are tried in order, and the first that has something
 * is it; with none the part is empty, so that all who lack it share one key.
 */
export interface KeyPart {
  readonly sources: readonly KeySource[];
}

export type KeySource =
  /** The client's address, as far as proxies are trusted. */
  | { readonly from: 'address' }
  | { readonly from: 'method' | 'path' | 'host' }
  | { readonly from: 'header' | 'cookie' | 'query' | 'descriptor'; readonly name: string }
  | { readonly from: 'text'; readonly text: string };

/** One limit of a rule: a policy, whom it counts, and how much a request takes. */
export interface RuleLimit {
  readonly policy: string;
  readonly key: readonly KeyPart[];
  /** Default 1. Not together with `operation`. */
  readonly cost?: number;
  /** The name of one of the policy's costs. */
  readonly operation?: string;
  /** What the operation costs, if there is one. */
  readonly weight?: number;
}

/**
 * Which requests or descriptors a rule is about. All that is said must hold. `*` in a text stands
 * for any characters; in a path it stops at `/`, and `**` does not.
 */
export interface RequestMatch {
  readonly kind: 'request';
  readonly path?: readonly string[];
  /** Whether case tells paths apart. Default: it does not. */
  readonly caseSensitive?: true;
  readonly method?: readonly string[];
  readonly host?: readonly string[];
  /** By lower-case name; `*` alone means that it is there. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A descriptor that has just these entries, in any order. */
export interface DescriptorMatch {
  readonly kind: 'descriptor';
  readonly domain: string;
  readonly entries: Readonly<Record<string, string>>;
}

/** From the top, the first rule that matches is it, unless it says to go on. */
export interface RuleConfig {
  readonly name: string;
  readonly match: RequestMatch | DescriptorMatch;
  /** Decided together, all or nothing. None at all means unlimited. */
  readonly limits: readonly RuleLimit[];
  /** Whether the rules after it are asked as well, and their limits added. */
  readonly goOn: boolean;
}

/** Entries of the stores are 32 bits wide unless the policy's own limit is wider. */
export const MAX_OVERRIDE = 2 ** 31 - 1;

/** One key, or all that a pattern with `*` fits, has a limit of its own. */
export interface OverrideConfig {
  readonly policy: string;
  readonly key: string;
  readonly limit: number;
  /** From then on it does not count. */
  readonly expiresAtMs?: number;
  /** Why it is there, for whoever finds it later. */
  readonly reason?: string;
}

/** What envoyproxy/ratelimit calls a domain: a tree of descriptors. */
export interface DomainConfig {
  readonly domain: string;
  readonly descriptors: readonly DescriptorConfig[];
}

export interface DescriptorConfig {
  readonly key: string;
  /** Without one: any value, each counted for itself. In it `*` stands for any characters. */
  readonly value?: string;
  /** Whether all values that the `*` fits are counted as one, by the pattern, here and below. */
  readonly shared?: boolean;
  readonly limit?: DescriptorLimit;
  readonly descriptors: readonly DescriptorConfig[];
  /** Plain data for Envoy, sent while the descriptor is within its limit. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** What all limits of descriptors may say. */
interface NamedLimit {
  /** The name that `replaces` elsewhere refers to. */
  readonly name?: string;
  readonly replaces: readonly string[];
}

interface EnforcedLimit extends NamedLimit {
  readonly unlimited: false;
  /** A soft limit: a request is denied only if all of its soft limits are exceeded. */
  readonly quota?: boolean;
}

/** `requests_per_unit: 0` is `blocked`: the engine has no such limit, so it is not asked. */
export type DescriptorLimit =
  | (NamedLimit & { readonly unlimited: true })
  | (EnforcedLimit & {
      readonly blocked?: false;
      /** The name among `policies`. */
      readonly policy: string;
    })
  | (EnforcedLimit & {
      /** Nothing passes, not even a question that costs nothing. */
      readonly blocked: true;
      /** For reports. It is not among `policies`. */
      readonly policy: string;
      readonly windowMs: number;
      /** Reported, but not in the way. */
      readonly shadow: boolean;
    });

/** All files together. */
export interface Config {
  readonly files: readonly string[];
  /** Those under `policies`, and one for each limit of a domain. */
  readonly policies: readonly PolicyConfig[];
  readonly rules: readonly RuleConfig[];
  readonly domains: readonly DomainConfig[];
  readonly overrides: readonly OverrideConfig[];
  /** What is allowed, but rarely meant, such as keys that clients can make up. */
  readonly warnings: readonly ConfigProblem[];
  /** Settings that the file gives, by their names in `settings.ts`, still as written. */
  readonly settings: Readonly<Record<string, unknown>>;
}

/** One mistake, where it is. Line and column count from 1. */
export interface ConfigProblem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  /** Reads "Expected ..., got ...". */
  readonly message: string;
}

/** `sluice.yaml:3:5: Expected ...` */
export const problemText = ({ file, line, column, message }: ConfigProblem): string =>
  `${file}:${line}:${column}: ${message}`;

/** Everything that is wrong, at once. Nothing has been taken over. */
export class ConfigError extends Error {
  constructor(readonly problems: readonly ConfigProblem[]) {
    super(problems.map(problemText).join('\n'));
    this.name = 'ConfigError';
  }
}
