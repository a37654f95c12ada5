/** Thrown for a request that proxies and applications could read differently (status 400). */
export class AmbiguousRequest extends Error {
  override readonly name = 'AmbiguousRequest';
}
