/** Builds and repeats the requests that a proxy sends. */
import type { RuleConfig, RuleLimit } from '../../src/config/model.ts';
import type { ServiceResponse } from '../running.ts';

export const PATH = '/v1/forward-auth';

export const limit = (
  name: string,
  from: 'address' | 'path' = 'address',
  more = {},
): RuleLimit => ({
  policy: name,
  key: [{ sources: [{ from }] }],
  ...more,
});

export const rule = (path: string, limits: readonly RuleLimit[], match = {}): RuleConfig => ({
  name: path,
  match: { kind: 'request', path: [path], ...match },
  limits,
  goOn: false,
});

/** Returns the headers in which Caddy and Traefik describe a request. */
export const forwarded = (uri: string, more: Readonly<Record<string, string>> = {}) => ({
  'x-forwarded-method': 'GET',
  'x-forwarded-uri': uri,
  'x-forwarded-host': 'example.com',
  'x-forwarded-proto': 'https',
  'x-forwarded-for': '192.0.2.1',
  ...more,
});

export const statusesOf = (responses: readonly ServiceResponse[]): number[] =>
  responses.map(({ status }) => status);

export async function repeat(
  count: number,
  send: () => Promise<ServiceResponse>,
): Promise<ServiceResponse[]> {
  const responses: ServiceResponse[] = [];
  for (let call = 0; call < count; call++) responses.push(await send());
  return responses;
}
