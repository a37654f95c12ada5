/**
 * Policies as metric labels. Each label is a time series, so the number of labels is bounded.
 * Inline policies of requests share one label. All policies after the first 1,000 share another.
 */
import type { Config, DescriptorConfig } from '../config/model.ts';
import type { Configuration } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import { HttpError } from '../http/request-context.ts';
import { RESERVED_PREFIX } from '../policies.ts';

export const MAX_LABELS = 1000;
/** The label of inline policies. */
export const OF_REQUESTS = '(request)';
/** The label of all policies after the first 1,000. */
export const OF_OTHERS = '(other)';

/** One value per label, created when the label is first used. */
export class ByPolicy<T> {
  readonly #make: (label: string) => T;
  readonly #kept = new Map<string, T>();

  constructor(make: (label: string) => T) {
    this.#make = make;
  }

  of(policy: string): T {
    return this.#kept.get(policy) ?? this.#first(policy);
  }

  #first(policy: string): T {
    if (policy.startsWith(RESERVED_PREFIX)) return this.#at(OF_REQUESTS);
    return this.#at(this.#kept.size < MAX_LABELS ? policy : OF_OTHERS);
  }

  #at(label: string): T {
    let kept = this.#kept.get(label);
    if (kept === undefined) {
      kept = this.#make(label);
      this.#kept.set(label, kept);
    }
    return kept;
  }

  get(label: string): T | undefined {
    return this.#kept.get(label);
  }

  entries(): Iterable<[label: string, T]> {
    return this.#kept;
  }
}

type BlockedLimit = Extract<DescriptorConfig['limit'], { readonly blocked: true }>;

const blocked = new WeakMap<Config, ReadonlyMap<string, BlockedLimit>>();

/** Returns the blocked limits (limit 0) by name. They deny everything and have no policy. */
export function blockedLimits(config: Config): ReadonlyMap<string, BlockedLimit> {
  const limitsIn = ({ limit, descriptors }: DescriptorConfig): readonly BlockedLimit[] => [
    ...(limit !== undefined && !limit.unlimited && limit.blocked ? [limit] : []),
    ...descriptors.flatMap(limitsIn),
  ];
  let limits = blocked.get(config);
  if (limits === undefined) {
    const all = config.domains.flatMap(({ descriptors }) => descriptors.flatMap(limitsIn));
    limits = new Map(all.map((limit) => [limit.policy, limit]));
    blocked.set(config, limits);
  }
  return limits;
}

export interface LabelParts {
  readonly decisionService: DecisionService;
  readonly configuration: Configuration;
}

/** Throws an error with status 404 if `name` is neither a policy nor a shared label. */
export function checkLabel(
  { decisionService: { policies }, configuration }: LabelParts,
  name: string,
): void {
  if (name === OF_REQUESTS || name === OF_OTHERS || policies.get(name) !== undefined) return;
  if (blockedLimits(configuration.config).has(name)) return;
  const names = policies.list().map(({ config }) => config.name);
  const what = `Expected \`policy\` to be one of: ${names.join(' ').slice(0, 500) || 'none'}`;
  throw new HttpError(404, 'ERR_UNKNOWN_POLICY', what);
}
