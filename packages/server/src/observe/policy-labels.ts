/**
 * Policies as labels. Every label is a time series that somebody has to keep, so there is a bound:
 * policies of the configuration go by their names, limits that requests bring along share a label,
 * and so do all names after the first thousand.
 */
import type { Config, DescriptorConfig } from '../config/model.ts';
import type { Configuration } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import { HttpError } from '../http/request-context.ts';
import { OWN_NAMES } from '../policies.ts';

export const MAX_LABELS = 1000;
/** The label of limits that came with a request. No policy of a file is written like this. */
export const OF_REQUESTS = '(request)';
/** The label of what came after the first thousand. */
export const OF_OTHERS = '(other)';

/** What is kept about each label, made when it is first asked for. */
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
    if (policy.startsWith(OWN_NAMES)) return this.#at(OF_REQUESTS);
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

  /** What is kept under a label, if anything is. */
  get(label: string): T | undefined {
    return this.#kept.get(label);
  }

  entries(): Iterable<[label: string, T]> {
    return this.#kept;
  }
}

const blocked = new WeakMap<Config, ReadonlySet<string>>();

/** The names of limits that let nothing pass. They are reported, but the engine has none. */
function blockedNames(config: Config): ReadonlySet<string> {
  const namesIn = ({ limit, descriptors }: DescriptorConfig): readonly string[] => [
    ...(limit !== undefined && !limit.unlimited && limit.blocked ? [limit.policy] : []),
    ...descriptors.flatMap(namesIn),
  ];
  let names = blocked.get(config);
  if (names === undefined) {
    names = new Set(config.domains.flatMap(({ descriptors }) => descriptors.flatMap(namesIn)));
    blocked.set(config, names);
  }
  return names;
}

export interface LabelParts {
  readonly decisionService: DecisionService;
  readonly configuration: Configuration;
}

/** Refuses what is neither the name of a limit nor a label that several share. */
export function checkLabel(
  { decisionService: { policies }, configuration }: LabelParts,
  name: string,
): void {
  if (name === OF_REQUESTS || name === OF_OTHERS || policies.get(name) !== undefined) return;
  if (blockedNames(configuration.config).has(name)) return;
  const names = policies.list().map(({ config }) => config.name);
  const what = `Expected \`policy\` to be one of: ${names.join(' ').slice(0, 500) || 'none'}`;
  throw new HttpError(404, 'ERR_UNKNOWN_POLICY', what);
}
