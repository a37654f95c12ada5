/**
 * Files of envoyproxy/ratelimit, as they are: a domain with a tree of descriptors. Each limit in it
 * becomes a policy that is named by its path, as in that project's statistics.
 */
import { createHash } from 'node:crypto';
import type { DescriptorConfig, DescriptorLimit, DomainConfig } from './model.ts';
import { checkedPolicy, optional, type Places, parseOptions, parseWindow } from './parse-policy.ts';
import type { PolicyRegister } from './policy-register.ts';
import { type Fields, short, type Value } from './value.ts';
import {
  DESCRIPTOR_FIELDS,
  MAX_REQUESTS,
  POLICY_NAME,
  RATE_LIMIT_FIELDS,
  UNIT_MS,
  UNITS,
} from './vocabulary.ts';

/** What a limit says, whatever it is. */
interface Names {
  readonly name?: string;
  readonly replaces: readonly string[];
}

export class DomainParser {
  readonly #policies: PolicyRegister;
  /** Which file has a domain. */
  readonly #files = new Map<string, string>();

  constructor(policies: PolicyRegister) {
    this.#policies = policies;
  }

  /** A domain, of a file of its own or of `domains`. */
  read(fields: Fields, file: string): DomainConfig | undefined {
    const value = fields.get('domain');
    const domain = value.written('the name of a domain');
    const other = domain === undefined ? undefined : this.#files.get(domain);
    if (other !== undefined) {
      value.report(`Expected domain \`${short(domain!)}\` once, got it again; it is in ${other}`);
    } else if (domain !== undefined) this.#files.set(domain, file);
    const owner = domain === undefined ? 'the domain' : `domain \`${short(domain)}\``;
    const descriptors = this.#descriptors(fields.get('descriptors'), domain ?? '', owner);
    return domain === undefined ? undefined : { domain, descriptors };
  }

  #descriptors(value: Value, path: string, owner: string): readonly DescriptorConfig[] {
    const seen = new Set<string>();
    const items = value.items(
      (place) => `descriptor ${place} of ${owner}`,
      'a list of descriptors',
    );
    return items.flatMap((item) => this.#descriptor(item, path, seen) ?? []);
  }

  #descriptor(item: Value, path: string, seen: Set<string>): DescriptorConfig | undefined {
    if (!item.isMap) return item.expected('a map with a key');
    const fields = item.fields(item.label, DESCRIPTOR_FIELDS);
    const key = fields.get('key').written();
    const value = writtenIn(fields, 'value');
    if (key === undefined) return undefined;
    const step = value === undefined ? key : `${key}_${value}`;
    const own = `${path}.${step}`;
    const owner = `descriptor \`${short(own, MAX_PATH_SHOWN_LENGTH)}\``;
    if (seen.has(step)) {
      return fields.get('key').report(`Expected ${owner} once in its list, got it again`);
    }
    seen.add(step);
    const shared = fields.get('share_threshold').flag();
    if (shared && value?.includes('*') !== true) {
      const what = 'only with a `*` in the value, got none';
      fields.get('share_threshold').report(`Expected \`share_threshold\` of ${owner} ${what}`);
    }
    for (const ignored of ['detailed_metric', 'value_to_metric']) fields.get(ignored).flag();
    const limit = this.#limit(fields, own, owner);
    const metadata = metadataIn(fields.get('metadata'));
    return {
      key,
      ...(value === undefined ? {} : { value }),
      ...(shared ? { shared } : {}),
      ...(limit === undefined ? {} : { limit }),
      descriptors: this.#descriptors(fields.get('descriptors'), own, owner),
      ...(metadata === undefined ? {} : { metadata }),
    };
  }

  #limit(descriptor: Fields, path: string, owner: string): DescriptorLimit | undefined {
    const shadow = descriptor.get('shadow_mode').flag();
    const quota = descriptor.get('quota_mode').flag() ? { quota: true } : {};
    const value = descriptor.get('rate_limit');
    if (value.isMissing) return undefined;
    if (!value.isMap) return value.expected('a map with unit and requests_per_unit');
    const fields = value.fields(owner, RATE_LIMIT_FIELDS);
    const names = namesIn(fields, owner);
    if (fields.get('unlimited').flag()) return unlimited(fields, owner, names);
    const places = placesIn(fields, owner);
    const requests = places.limit.integer(0, MAX_REQUESTS);
    const isUnit = fields.get('window').isMissing;
    const window = isUnit ? readUnit(places.window) : parseWindow(places.window);
    // The engine has no limit of 0, so the rest is checked with the least that it has.
    const limit = requests === undefined ? undefined : Math.max(1, requests);
    const options = parseOptions(limit, window, places);
    const name = policyName(path);
    const policy = options && checkedPolicy(name, options, shadow, places);
    const said = { ...names, ...quota, unlimited: false, policy: name } as const;
    if (requests === 0) {
      return policy && { ...said, blocked: true, windowMs: policy.policy.windowMs, shadow };
    }
    if (!this.#policies.add(name, policy)) {
      const what = 'a name of its own, got one that another limit has';
      return value.reportKey(`Expected ${owner} to have ${what}`);
    }
    return said;
  }
}

/** Empty text is as good as none. */
function writtenIn(fields: Fields, name: string): string | undefined {
  const value = fields.get(name);
  return value.isMissing || value.plain === '' ? undefined : value.written();
}

function metadataIn(value: Value): Readonly<Record<string, unknown>> | undefined {
  if (value.isMissing) return undefined;
  if (!value.isMap) return value.expected('a map');
  return value.data as Readonly<Record<string, unknown>>;
}

/** The name that others refer to, and the names of those that give way to this one. */
function namesIn(fields: Fields, owner: string): Names {
  const name = writtenIn(fields, 'name');
  const what = 'a list of maps with a name';
  const items = fields.get('replaces').items((place) => `\`replaces\` ${place} of ${owner}`, what);
  const replaces = items.flatMap((item) => {
    if (!item.isMap) return item.expected('a map with a name') ?? [];
    const other = item.fields(item.label, ['name']).get('name');
    const replaced = other.written();
    if (replaced === undefined) return [];
    if (replaced !== name) return replaced;
    return other.expected('the name of another limit') ?? [];
  });
  return name === undefined ? { replaces } : { name, replaces };
}

/** That project takes a number of requests beside it, and has no use for it. */
const BESIDE_UNLIMITED: readonly string[] = ['unlimited', 'name', 'replaces', 'requests_per_unit'];

function unlimited(fields: Fields, owner: string, names: Names): DescriptorLimit {
  optional(fields.get('requests_per_unit'), (value) => value.integer(0, MAX_REQUESTS));
  for (const [field, value] of fields.entries) {
    if (value.isMissing || BESIDE_UNLIMITED.includes(field)) continue;
    value.report(`Expected no \`${field}\` of ${owner} beside \`unlimited\`, got one`);
  }
  return { ...names, unlimited: true };
}

function readUnit(value: Value): number | undefined {
  const { plain } = value;
  const unit = UNITS.find((each) => typeof plain === 'string' && each === plain.toLowerCase());
  return unit === undefined ? value.expected(`one of ${UNITS.join(', ')}`) : UNIT_MS[unit];
}

/** Where a limit says what a policy does, by the words that this form has for it. */
function placesIn(fields: Fields, owner: string): Places {
  return {
    limit: eitherOf(fields, 'requests_per_unit', 'limit', owner),
    window: eitherOf(fields, 'unit', 'window', owner),
    algorithm: fields.get('algorithm'),
    buckets: fields.get('buckets'),
    burst: fields.get('burst'),
    costs: fields.get('costs'),
    onFailure: fields.get('on_failure'),
  };
}

/** Two words for one thing. */
function eitherOf(fields: Fields, usual: string, other: string, owner: string): Value {
  if (fields.get(other).isMissing) return fields.get(usual);
  if (!fields.get(usual).isMissing) {
    const message = `Expected \`${usual}\` or \`${other}\` of ${owner}, got both`;
    fields.get(other).report(message);
  }
  return fields.get(other);
}

const MAX_PATH_SHOWN_LENGTH = 200;
const MAX_START_LENGTH = 100;

/** The path, unless it cannot be a name: then its beginning, and a hash of all of it. */
function policyName(path: string): string {
  if (POLICY_NAME.test(path)) return path;
  const visible = path.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?');
  const start = [...visible.slice(0, 2 * MAX_START_LENGTH)].slice(0, MAX_START_LENGTH).join('');
  const hash = createHash('sha256').update(path).digest('hex').slice(0, 16);
  return `${start.replace(/^sluice\./, 'sluice~')}~${hash}`;
}
