/** Which handler a request is for. Paths are looked up whole; those with places are compared. */
import { HttpError, type RequestContext } from './request-context.ts';

export type Handler = (context: RequestContext) => void | Promise<void>;

/**
 * Who may come: everybody; everybody, also by a link on a page of another site; whoever has the
 * admin token (on loopback, everybody); or everybody by way of a proxy, whose headers tell of
 * another request.
 */
export type Access = 'open' | 'page' | 'admin' | 'proxied';

export interface Route {
  readonly path: string;
  readonly handler: Handler;
  readonly access: Access;
}

export interface RouteName {
  readonly method: string;
  readonly path: string;
  readonly access: Access;
}

type Methods = Map<string, Route>;

interface Place {
  readonly path: string;
  readonly segments: readonly string[];
  readonly methods: Methods;
}

/** Stands for all methods. */
export const ANY_METHOD = '*';

export class Router {
  readonly #exact = new Map<string, Methods>();
  readonly #patterns: Place[] = [];
  readonly #below = new Map<string, Methods>();

  /**
   * A segment of a path that begins with `:` is a place: `/v1/keys/:policy/:key`. A path that ends
   * with `/*` is all that lies below.
   */
  add(method: string, path: string, access: Access, handler: Handler): this {
    const methods = this.#methodsOf(path);
    methods.set(method, { path, handler, access });
    return this;
  }

  /** All that was added, by path. */
  list(): readonly RouteName[] {
    const patterns = this.#patterns.map((each) => [each.path, each.methods]);
    const places = [...this.#exact, ...patterns, ...this.#below];
    return (places as [string, Methods][]).flatMap(([path, methods]) =>
      [...methods].map(([method, { access }]) => ({ method, path, access })),
    );
  }

  #methodsOf(path: string): Methods {
    const known =
      this.#exact.get(path) ??
      this.#below.get(path) ??
      this.#patterns.find((each) => each.path === path)?.methods;
    if (known !== undefined) return known;
    const methods: Methods = new Map();
    if (path.endsWith('/*')) this.#below.set(path, methods);
    else if (!path.includes('/:')) this.#exact.set(path, methods);
    else this.#patterns.push({ path, segments: path.split('/'), methods });
    return methods;
  }

  /** Throws a 404 or a 405 if there is none. */
  find(context: RequestContext): Route {
    const methods = this.#exact.get(context.path) ?? this.#matching(context);
    if (methods === undefined) {
      throw new HttpError(
        404,
        'ERR_NOT_FOUND',
        'There is nothing at this path; see /v1/openapi.json',
      );
    }
    const { method = '' } = context.request;
    const route =
      methods.get(method) ??
      (method === 'HEAD' ? methods.get('GET') : undefined) ??
      methods.get(ANY_METHOD);
    if (route !== undefined) return route;
    const allow = [...methods.keys()].join(', ');
    const message = `Expected the method to be ${allow}`;
    throw new HttpError(405, 'ERR_METHOD_NOT_ALLOWED', message, undefined, { allow });
  }

  #matching(context: RequestContext): Methods | undefined {
    for (const [path, methods] of this.#below) {
      if (context.path.startsWith(path.slice(0, -1))) return methods;
    }
    const parts = context.path.split('/');
    for (const { segments, methods } of this.#patterns) {
      if (segments.length !== parts.length) continue;
      if (!segments.every((each, at) => each.startsWith(':') || each === parts[at])) continue;
      context.params = placesOf(segments, parts);
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
