/** Rules and requests for tests. */
import type { KeyPart, KeySource, RequestMatch, RuleConfig } from '../../src/config/model.ts';
import type { RequestAttributes } from '../../src/rules/request-attributes.ts';

export const part = (...sources: readonly KeySource[]): KeyPart => ({ sources });
export const ADDRESS = part({ from: 'address' });

export type Match = Omit<RequestMatch, 'kind'>;

/** Returns a rule whose only limit counts by address under a policy of the same name. */
export const rule = (name: string, match: Match, more: Partial<RuleConfig> = {}): RuleConfig => ({
  name,
  match: { kind: 'request', ...match },
  limits: [{ policy: name, key: [ADDRESS] }],
  goOn: false,
  ...more,
});

export interface TestRequest {
  readonly method?: string;
  readonly path?: string;
  readonly search?: string;
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly address?: () => string;
}

/** Returns the attributes of a request: by default GET / of example.com. */
export const attributesOf = ({ headers = {}, ...more }: TestRequest): RequestAttributes => ({
  method: 'GET',
  path: '/',
  search: '',
  host: 'example.com',
  address: () => '192.0.2.1',
  header: (name) => headers[name],
  ...more,
});
