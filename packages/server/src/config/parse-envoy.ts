/**
 * Parses domains in the format of envoyproxy/ratelimit, which are trees of descriptors. Each limit
 * becomes a policy whose name is the path of its descriptor, as in the statistics of
 * envoyproxy/ratelimit.
 */
import { createHash } from 'node:crypto';
import { shorten } from '../expectation.ts';
import type { DeclaredPolicies } from './declared-policies.ts';
import { type Fields, fieldsOf, withoutUndefined } from './fields.ts';
import type { DescriptorConfig, DescriptorLimit, DomainConfig } from './model.ts';
import { checkedPolicy, isPolicyName, type OptionLocator } from './parse-policy.ts';
import { descriptor, domain, rateLimit } from './schema.ts';
import { labelIn, type Value } from './value.ts';

type DescriptorFields = Fields<(typeof descriptor)['shape']>;
type LimitFields = Fields<(typeof rateLimit)['shape']>;

export class DomainParser {
  readonly #policies: DeclaredPolicies;
  /** The file that declares each domain, by the domain's name. */
  readonly #files = new Map<string, string>();

  constructor(policies: DeclaredPolicies) {
    this.#policies = policies;
  }

  /**
   * Parses a domain, which is an entry of `domains` or a whole file. For a whole file, `owner` is
   * ''.
   */
  parse(value: Value, file: string, owner?: string): DomainConfig | undefined {
    const fields = fieldsOf(value, domain, owner);
    if (fields === undefined) return undefined;
    const name = fields.read('domain');
    const other = name === undefined ? undefined : this.#files.get(name);
    if (other !== undefined) {
      const what = `domain \`${shorten(name!)}\` once`;
      fields.at('domain').report(`Expected ${what}, got it again; it is in ${other}`);
    } else if (name !== undefined) this.#files.set(name, file);
    const label = name === undefined ? 'the domain' : `domain \`${shorten(name)}\``;
    const items = fields.items('descriptors', descriptorIn(label));
    const descriptors = this.#descriptors(items, name ?? '');
    return name === undefined ? undefined : { domain: name, descriptors };
  }

  #descriptors(items: readonly Value[], path: string): readonly DescriptorConfig[] {
    const seen = new Set<string>();
    return items.flatMap((item) => this.#descriptor(item, path, seen) ?? []);
  }

  /**
   * Parses a descriptor. `seen` contains the keys and values of earlier descriptors in the same
   * list.
   */
  #descriptor(item: Value, parentPath: string, seen: Set<string>): DescriptorConfig | undefined {
    const fields = fieldsOf(item, descriptor);
    const key = fields?.read('key');
    // An empty value counts as missing.
    const value = fields?.read('value') || undefined;
    if (fields === undefined || key === undefined) return undefined;
    const step = value === undefined ? key : `${key}_${value}`;
    const path = `${parentPath}.${step}`;
    const owner = `descriptor \`${shorten(path, MAX_PATH_SHOWN_LENGTH)}\``;
    if (seen.has(step)) {
      return void fields.at('key').report(`Expected ${owner} once in its list, got it again`);
    }
    seen.add(step);
    const shared = fields.read('share_threshold') === true;
    if (shared && value?.includes('*') !== true) {
      const what = 'only with a `*` in the value, got none';
      fields.at('share_threshold').report(`Expected \`share_threshold\` of ${owner} ${what}`);
    }
    for (const ignored of ['detailed_metric', 'value_to_metric'] as const) fields.read(ignored);
    const limit = this.#limit(fields, path, owner);
    const metadata = fields.read('metadata');
    return {
      key,
      ...withoutUndefined({ value, shared: shared || undefined, limit, metadata }),
      descriptors: this.#descriptors(fields.items('descriptors', descriptorIn(owner)), path),
    };
  }

  #limit(
    descriptorFields: DescriptorFields,
    path: string,
    owner: string,
  ): DescriptorLimit | undefined {
    const shadow = descriptorFields.read('shadow_mode') ?? false;
    const quota = descriptorFields.read('quota_mode') ? { quota: true } : {};
    const value = descriptorFields.at('rate_limit');
    const fields = value.isMissing ? undefined : fieldsOf(value, rateLimit, owner);
    if (fields === undefined) return undefined;
    const { unlimited, name: ownName = '', replaces = [], ...parsed } = fields.readAll();
    rejectSelfReplacing(fields.at('replaces'), replaces, ownName);
    const names = {
      ...(ownName === '' ? {} : { name: ownName }),
      replaces: replaces.map((each) => each.name),
    };
    if (unlimited) {
      rejectBesideUnlimited(fields, owner);
      return { ...names, unlimited };
    }
    const isLimit = usesOwnField(fields, 'limit', 'requests_per_unit', owner);
    const isWindow = usesOwnField(fields, 'window', 'unit', owner);
    const requests = isLimit ? parsed.limit : fields.require('requests_per_unit');
    const window = isWindow ? parsed.window : fields.require('unit');
    const name = policyNameOf(path);
    const limit = { ...names, ...quota, unlimited: false, policy: name } as const;
    const { algorithm, buckets, burst, on_failure: onFailure } = parsed;
    const options = requests !== undefined &&
      window !== undefined &&
      fields.isValid && {
        // The library has no limit of 0, so the other options are validated with a limit of 1.
        limit: Math.max(1, requests),
        window,
        ...withoutUndefined({ algorithm, buckets, burst, onFailure }),
      };
    const locate: OptionLocator = (option) => {
      if (option === 'limit') return fields.at(isLimit ? 'limit' : 'requests_per_unit');
      if (option === 'window') return fields.at(isWindow ? 'window' : 'unit');
      return fields.at(option === 'onFailure' ? 'on_failure' : (option as 'burst'));
    };
    const policy = options ? checkedPolicy({ name, options, shadow }, locate) : undefined;
    if (requests === 0) {
      return policy && { ...limit, blocked: true, windowMs: policy.policy.windowMs, shadow };
    }
    if (this.#policies.add(name, policy)) return limit;
    const what = 'a name of its own, got one that another limit has';
    return void value.reportKey(`Expected ${owner} to have ${what}`);
  }
}

const descriptorIn =
  (owner: string) =>
  (place: number): string =>
    `descriptor ${place} of ${owner}`;

/** Reports a limit that replaces itself. */
function rejectSelfReplacing(
  value: Value,
  replaces: readonly { readonly name: string }[],
  ownName: string,
): void {
  const items = value.items((place) => `entry ${place} of ${value.label}`);
  for (const [index, { name }] of replaces.entries()) {
    if (name !== ownName) continue;
    const item = items[index];
    item.entries(labelIn(item.label)).get('name')!.expected('the name of another limit');
  }
}

/**
 * Fields that may be set together with `unlimited`. As in envoyproxy/ratelimit, `requests_per_unit`
 * is then ignored.
 */
const BESIDE_UNLIMITED: readonly string[] = ['unlimited', 'name', 'replaces', 'requests_per_unit'];

function rejectBesideUnlimited(fields: LimitFields, owner: string): void {
  for (const name of Object.keys(rateLimit.shape) as (keyof typeof rateLimit.shape)[]) {
    if (BESIDE_UNLIMITED.includes(name) || fields.at(name).isMissing) continue;
    fields.at(name).report(`Expected no \`${name}\` of ${owner} beside \`unlimited\`, got one`);
  }
}

/**
 * Returns whether `own` is set: a field that only Sluice has. Reports a problem if the equivalent
 * field of envoyproxy/ratelimit is set as well.
 */
function usesOwnField(
  fields: LimitFields,
  own: 'limit' | 'window',
  other: 'requests_per_unit' | 'unit',
  owner: string,
): boolean {
  if (fields.at(own).isMissing) return false;
  if (!fields.at(other).isMissing) {
    fields.at(own).report(`Expected \`${other}\` or \`${own}\` of ${owner}, got both`);
  }
  return true;
}

const MAX_PATH_SHOWN_LENGTH = 200;
const MAX_START_LENGTH = 100;

/**
 * Returns the name of the policy for a path of descriptors. It is the path itself or, if the path
 * is not a valid policy name, the start of the path and a hash of the whole path.
 */
function policyNameOf(path: string): string {
  if (isPolicyName(path)) return path;
  const visible = path.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
  const start = [...visible.slice(0, 2 * MAX_START_LENGTH)].slice(0, MAX_START_LENGTH).join('');
  const hash = createHash('sha256').update(path).digest('hex').slice(0, 16);
  return `${start.replace(/^sluice\./, 'sluice~')}~${hash}`;
}
