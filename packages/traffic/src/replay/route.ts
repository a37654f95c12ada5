/** Converts paths to routes: replaces ids by `:id`. */

const ID_PLACEHOLDER = ':id';
const MAX_ROUTE_LENGTH = 120;

const NUMBER = /^\d+$/;
const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;
/** At least 8 hexadecimal digits, and at least one of 0 to 9, because `deadbeef` may be a word. */
const HEX = /^(?=.*\d)[\da-f]{8,}$/i;

const isId = (segment: string): boolean =>
  NUMBER.test(segment) || UUID.test(segment) || HEX.test(segment);

/** Returns a route such as `GET /users/:id/posts` for `GET /users/17/posts`. */
export function routeOf(method: string, path: string): string {
  const folded = path
    .slice(0, 2 * MAX_ROUTE_LENGTH)
    .split('/')
    .map((segment) => (isId(segment) ? ID_PLACEHOLDER : segment))
    .join('/');
  const route = `${method} ${folded}`;
  return route.length <= MAX_ROUTE_LENGTH ? route : `${route.slice(0, MAX_ROUTE_LENGTH - 1)}…`;
}
