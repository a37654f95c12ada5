/** Policy and key of a request, in the path or in the query: clients remove `..` from paths. */
import { badRequest, type RequestContext } from '../http/request-context.ts';

export interface Names {
  readonly policy: string;
  readonly key: string;
}

export function namesOf(context: RequestContext): Names {
  const { policy, key } = context.params;
  if (policy === undefined) return namesOfQuery(context);
  context.checkQuery();
  return { policy, key };
}

function namesOfQuery(context: RequestContext): Names {
  context.checkQuery('policy', 'key');
  const [policy, key] = ['policy', 'key'].map((name) => {
    const value = context.query.get(name);
    if (value !== null) return value;
    throw badRequest('ERR_INVALID_OPTION', `Expected \`${name}\` in the query`);
  });
  return { policy, key };
}
