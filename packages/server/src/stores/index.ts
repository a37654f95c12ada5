/**
 * The table of stores. To add a store, create a module in this folder that exports a `StoreKind`,
 * and add it to `STORE_KINDS`. The first entry is the default.
 */
import { memoryKind } from './memory.ts';
import { redisKind } from './redis/index.ts';
import {
  type OpenStore,
  type StoreKind,
  type StoreListeners,
  type StoreSettings,
  StoreUrlError,
} from './store-kind.ts';

export type { OpenStore, StoreKind, StoreListeners, StoreSettings };

export const STORE_KINDS: readonly StoreKind[] = [memoryKind, redisKind];
export const DEFAULT_STORE = STORE_KINDS[0].schemes[0];

/** All starts of valid values of `--store`: `memory`, and URL schemes such as `redis://`. */
export const STORE_SCHEMES = STORE_KINDS.flatMap(({ schemes }) => schemes);

const isUrl = (scheme: string): boolean => scheme.endsWith('://');

/**
 * Matches `memory`, and URLs with a known scheme. The JSON Schema for editors contains this
 * pattern.
 */
export const STORE_PATTERN = new RegExp(`^(?:${STORE_SCHEMES.map(patternOf).join('|')})$`);

function patternOf(scheme: string): string {
  const literal = scheme.replaceAll(/[+/]/g, '\\$&');
  return isUrl(scheme) ? `${literal}[\\s\\S]+` : literal;
}

/** Returns the kind of store that `--store` selects. Throws a `StoreUrlError` if there is none. */
export function storeKind(url: string): StoreKind {
  const [start] = /^[a-z][a-z\d+.-]{0,30}:\/\//i.exec(url) ?? [url];
  const kind = STORE_KINDS.find(({ schemes }) => schemes.includes(start));
  if (kind !== undefined) return kind;
  throw new StoreUrlError(
    isUrl(start) ? `an address that begins with \`${start}\`` : 'text without ://',
  );
}

/**
 * Returns the reason why a value of `--store` is invalid; undefined if it is valid. The reason
 * contains no part of the value that may be secret.
 */
export function invalidStoreReason(url: string): string | undefined {
  try {
    storeKind(url).validate(url);
    return undefined;
  } catch (error) {
    if (error instanceof StoreUrlError) return error.message;
    throw error;
  }
}

export async function openStore(
  settings: StoreSettings,
  listeners: StoreListeners,
): Promise<OpenStore> {
  const kind = storeKind(settings.store);
  return { ...(await kind.open(settings, listeners)), kind: kind.name };
}
