/**
 * Warns about limits that count only by a header. A client that sends a new value with each request
 * has a new counter each time, so it is not limited. No warning is needed if the values are
 * authenticated, or if another limit counts the client too.
 */
import { emitWarning, type Warning, warnOnError } from '../warning.ts';
import type { HeaderKey, KeySource } from './options.ts';

/** The keys for which a warning was emitted. Several routes can inherit one key of a plugin. */
const warned = new WeakSet<HeaderKey>();

/**
 * Emits a warning for each enforced limit by header, unless another enforced limit counts by
 * address or by a function, whose keys clients may not be able to choose.
 */
export function warnOfHeaderKeys<R>(
  limits: readonly { readonly key?: KeySource<R>; readonly shadow?: boolean }[],
  onWarning: (warning: Warning) => void = emitWarning,
): void {
  const keys = limits.filter(({ shadow }) => !shadow).map(({ key = 'address' }) => key);
  if (!keys.every((key) => typeof key === 'object')) return;
  for (const key of keys) {
    if (key.authenticated === true || warned.has(key)) continue;
    warned.add(key);
    const message =
      `The limit counts only by the header ${key.header}, which clients choose: a client that ` +
      'sends another value with each request is not limited. Add a limit with key: ' +
      "'address' to `limits`. If requests with an invented value never reach the limit, set " +
      `key: { header: '${key.header}', authenticated: true } instead.`;
    void warnOnError(onWarning)({ code: 'WARN_HEADER_KEY', message });
  }
}
