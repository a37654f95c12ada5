/** Whom a request is about: in its path, or in its query, as clients take `..` out of paths. */
import { badRequest, type Exchange } from '../http/exchange.ts';

export interface Names {
  readonly policy: string;
  readonly key: string;
}

export function namesOf(exchange: Exchange): Names {
  const { policy, key } = exchange.params;
  if (policy === undefined) return namesOfQuery(exchange);
  exchange.checkQuery();
  return { policy, key };
}

function namesOfQuery(exchange: Exchange): Names {
  exchange.checkQuery('policy', 'key');
  const [policy, key] = ['policy', 'key'].map((name) => {
    const value = exchange.query.get(name);
    if (value !== null) return value;
    throw badRequest('ERR_INVALID_OPTION', `Expected \`${name}\` in the query`);
  });
  return { policy, key };
}
