/**
 * Splits a configuration into slices of bounded size, to pass it to another thread or process. A
 * single message with 10,000 rules would block the event loop of the receiver.
 */
import type { Config, DescriptorConfig, DomainConfig } from './model.ts';

/** Maximum number of policies, rules, descriptors or overrides per slice. */
const SLICE_ENTRIES = 100;

const LISTS = ['policies', 'rules', 'overrides'] as const;
type List = (typeof LISTS)[number];

/** The parts of a configuration that are not split. */
type Base = Omit<Config, List | 'domains'>;

/** A descriptor without its children. `level` is its depth in the tree. */
type FlatDescriptor = Omit<DescriptorConfig, 'descriptors'> & { readonly level: number };

/** Plain data, serializable as JSON. */
export type ConfigSlice =
  | { readonly kind: 'base'; readonly base: Base }
  | { readonly kind: 'list'; readonly list: List; readonly entries: readonly unknown[] }
  | { readonly kind: 'domain'; readonly domain: string }
  /** Descriptors of the domain in the last `domain` slice. */
  | { readonly kind: 'descriptors'; readonly entries: readonly FlatDescriptor[] };

export function* slicesOf(config: Config): Generator<ConfigSlice, void> {
  const { policies, rules, overrides, domains, ...base } = config;
  yield { kind: 'base', base };
  const lists = { policies, rules, overrides };
  for (const list of LISTS) {
    for (const entries of groups<unknown>(lists[list])) yield { kind: 'list', list, entries };
  }
  for (const { domain, descriptors } of domains) {
    yield { kind: 'domain', domain };
    for (const entries of groups(flatten(descriptors, 0))) yield { kind: 'descriptors', entries };
  }
}

function* groups<T>(entries: Iterable<T>): Generator<readonly T[], void> {
  let group: T[] = [];
  for (const entry of entries) {
    group.push(entry);
    if (group.length < SLICE_ENTRIES) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
}

function* flatten(
  all: readonly DescriptorConfig[],
  level: number,
): Generator<FlatDescriptor, void> {
  for (const { descriptors, ...entry } of all) {
    yield { ...entry, level };
    yield* flatten(descriptors, level + 1);
  }
}

/** Builds a configuration from its slices. The slices have to arrive in order. */
export class ConfigParts {
  #base: Base = { files: [], warnings: [], settings: {} };
  readonly #lists: Record<List, unknown[]> = { policies: [], rules: [], overrides: [] };
  readonly #domains: DomainConfig[] = [];
  /** For each level of the tree, the list to which the next descriptor of that level is added. */
  #open: DescriptorConfig[][] = [];

  add(slice: ConfigSlice): void {
    if (slice.kind === 'base') this.#base = slice.base;
    else if (slice.kind === 'list') this.#lists[slice.list].push(...slice.entries);
    else if (slice.kind === 'domain') {
      this.#open = [[]];
      this.#domains.push({ domain: slice.domain, descriptors: this.#open[0] });
    } else for (const each of slice.entries) this.#addDescriptor(each);
  }

  #addDescriptor({ level, ...entry }: FlatDescriptor): void {
    const children: DescriptorConfig[] = [];
    this.#open.length = level + 1;
    this.#open[level].push({ ...entry, descriptors: children });
    this.#open.push(children);
  }

  get config(): Config {
    return { ...this.#base, ...this.#lists, domains: this.#domains } as unknown as Config;
  }
}
