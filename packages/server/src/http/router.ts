/** Which handler a request is for. Paths are looked up whole; only those with places are compared. */
import { type Exchange, HttpError } from './exchange.ts';

export type Handler = (exchange: Exchange) => void | Promise<void>;

/** Who may come: everybody, or whoever has the admin token (on loopback, everybody). */
export type Access = 'open' | 'admin';

export interface Route {
  readonly handler: Handler;
  readonly access: Access;
}

type Methods = Map<string, Route>;

/** Stands for all methods. */
export const ANY_METHOD = '*';

export class Router {
  readonly #exact = new Map<string, Methods>();
  readonly #patterns: { readonly segments: readonly string[]; readonly methods: Methods }[] = [];

  /** A segment of a path that begins with `:` is a place: `/v1/keys/:policy/:key`. */
  add(method: string, path: string, access: Access, handler: Handler): this {
    const methods = this.#methodsOf(path);
    methods.set(method, { handler, access });
    return this;
  }

  #methodsOf(path: string): Methods {
    const known =
      this.#exact.get(path) ??
      this.#patterns.find(({ segments }) => segments.join('/') === path)?.methods;
    if (known !== undefined) return known;
    const methods: Methods = new Map();
    if (path.includes('/:')) this.#patterns.push({ segments: path.split('/'), methods });
    else this.#exact.set(path, methods);
    return methods;
  }

  /** Throws a 404 or a 405 if there is none. */
  find(exchange: Exchange): Route {
    const methods = this.#exact.get(exchange.path) ?? this.#matching(exchange);
    if (methods === undefined) {
      throw new HttpError(
        404,
        'ERR_NOT_FOUND',
        'There is nothing at this path; see /v1/openapi.json',
      );
    }
    const { method = '' } = exchange.request;
    const route =
      methods.get(method) ??
      (method === 'HEAD' ? methods.get('GET') : undefined) ??
      methods.get(ANY_METHOD);
    if (route !== undefined) return route;
    const allow = [...methods.keys()].join(', ');
    const message = `Expected the method to be ${allow}`;
    throw new HttpError(405, 'ERR_METHOD_NOT_ALLOWED', message, undefined, { allow });
  }

  #matching(exchange: Exchange): Methods | undefined {
    const parts = exchange.path.split('/');
    for (const { segments, methods } of this.#patterns) {
      if (segments.length !== parts.length) continue;
      if (!segments.every((each, at) => each.startsWith(':') || each === parts[at])) continue;
      exchange.params = placesOf(segments, parts);
      return methods;
    }
    return undefined;
  }
}

function placesOf(segments: readonly string[], parts: readonly string[]): Record<string, string> {
  const places: Record<string, string> = Object.create(null);
  for (const [at, segment] of segments.entries()) {
    if (!segment.startsWith(':')) continue;
    try {
      places[segment.slice(1)] = decodeURIComponent(parts[at]);
    } catch {
      throw new HttpError(400, 'ERR_INVALID_BODY', 'Expected the path to be percent-encoded UTF-8');
    }
  }
  return places;
}
