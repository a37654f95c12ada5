/** Finds the handler of a request by the whole path, by prefix, or by a pattern with parameters. */
import { HttpError, type RequestContext } from './request-context.ts';

export type Handler = (context: RequestContext) => void | Promise<void>;

/**
 * The clients that may use a route:
 *
 * - `open`: every client
 * - `page`: every client, also through a link from another site
 * - `admin`: clients with the admin token; on loopback without a token, every local client
 * - `proxied`: every client; the headers describe a forwarded request
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

interface Pattern {
  readonly path: string;
  readonly segments: readonly string[];
  readonly methods: Methods;
}

export const ANY_METHOD = '*';

export class Router {
  readonly #exact = new Map<string, Methods>();
  readonly #patterns: Pattern[] = [];
  readonly #prefixes = new Map<string, Methods>();

  /**
   * Adds a route. A segment that begins with `:` is a parameter: `/v1/keys/:policy/:key`. A path
   * that ends with `/*` matches all paths with that prefix.
   */
  add(method: string, path: string, access: Access, handler: Handler): this {
    const methods = this.#methodsOf(path);
    methods.set(method, { path, handler, access });
    return this;
  }

  list(): readonly RouteName[] {
    const patterns = this.#patterns.map((each) => [each.path, each.methods]);
    const all = [...this.#exact, ...patterns, ...this.#prefixes];
    return (all as [string, Methods][]).flatMap(([path, methods]) =>
      [...methods].map(([method, { access }]) => ({ method, path, access })),
    );
  }

  #methodsOf(path: string): Methods {
    const known =
      this.#exact.get(path) ??
      this.#prefixes.get(path) ??
      this.#patterns.find((each) => each.path === path)?.methods;
    if (known !== undefined) return known;
    const methods: Methods = new Map();
    if (path.endsWith('/*')) this.#prefixes.set(path, methods);
    else if (!path.includes('/:')) this.#exact.set(path, methods);
    else this.#patterns.push({ path, segments: path.split('/'), methods });
    return methods;
  }

  /** Returns the route of a request. Throws an error with status 404 or 405 if no route matches. */
  find(context: RequestContext): Route {
    const methods = this.#exact.get(context.path) ?? this.#matching(context);
    if (methods === undefined) {
      throw new HttpError(404, 'ERR_NOT_FOUND', 'This path does not exist; see /v1/openapi.json');
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
    for (const [path, methods] of this.#prefixes) {
      if (context.path.startsWith(path.slice(0, -1))) return methods;
    }
    const parts = context.path.split('/');
    for (const { segments, methods } of this.#patterns) {
      if (segments.length !== parts.length) continue;
      if (!segments.every((each, at) => each.startsWith(':') || each === parts[at])) continue;
      context.params = paramsOf(segments, parts);
      return methods;
    }
    return undefined;
  }
}

function paramsOf(segments: readonly string[], parts: readonly string[]): Record<string, string> {
  const params: Record<string, string> = Object.create(null);
  for (const [at, segment] of segments.entries()) {
    if (!segment.startsWith(':')) continue;
    try {
      params[segment.slice(1)] = decodeURIComponent(parts[at]);
    } catch {
      throw new HttpError(400, 'ERR_INVALID_BODY', 'Expected the path to be percent-encoded UTF-8');
    }
  }
  return params;
}
