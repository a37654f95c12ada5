/**
 * Reads the policy and key of an admin request from the path or from the query. The query accepts
 * any key. A key such as `..` cannot be in the path, because clients remove such segments.
 */
import { badRequest, type RequestContext } from '../http/request-context.ts';

export interface PolicyAndKey {
  readonly policy: string;
  readonly key: string;
}

/** Returns policy and key. `also` lists the other query parameters that are allowed. */
export function policyAndKeyOf(context: RequestContext, ...also: readonly string[]): PolicyAndKey {
  const { policy, key } = context.params;
  if (policy === undefined) return policyAndKeyOfQuery(context, also);
  context.checkQuery(...also);
  return { policy, key };
}

function policyAndKeyOfQuery(context: RequestContext, also: readonly string[]): PolicyAndKey {
  context.checkQuery('policy', 'key', ...also);
  const [policy, key] = ['policy', 'key'].map((name) => {
    const value = context.query.get(name);
    if (value !== null) return value;
    throw badRequest('ERR_INVALID_OPTION', `Expected \`${name}\` in the query`);
  });
  return { policy, key };
}
