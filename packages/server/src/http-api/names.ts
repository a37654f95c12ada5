/** Policy and key of a request, in the path or in the query: clients remove `..` from paths. */
import { badRequest, type RequestContext } from '../http/request-context.ts';

export interface Names {
  readonly policy: string;
  readonly key: string;
}

/** `also` are further query parameters that the request may have. */
export function namesOf(context: RequestContext, ...also: readonly string[]): Names {
  const { policy, key } = context.params;
  if (policy === undefined) return namesOfQuery(context, also);
  context.checkQuery(...also);
  return { policy, key };
}

function namesOfQuery(context: RequestContext, also: readonly string[]): Names {
  context.checkQuery('policy', 'key', ...also);
  const [policy, key] = ['policy', 'key'].map((name) => {
    const value = context.query.get(name);
    if (value !== null) return value;
    throw badRequest('ERR_INVALID_OPTION', `Expected \`${name}\` in the query`);
  });
  return { policy, key };
}
