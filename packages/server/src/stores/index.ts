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
export const DEFAULT_STORE = STORE_KINDS[0].forms[0];

/** All values and URL schemes of `--store`: `memory`, `redis://` and so on. */
export const STORE_FORMS = STORE_KINDS.flatMap(({ forms }) => forms);

const isUrl = (form: string): boolean => form.endsWith('://');

/** Matches values of `--store` with a valid scheme. The JSON Schema for editors contains it. */
export const STORE_PATTERN = new RegExp(`^(?:${STORE_FORMS.map(patternOf).join('|')})$`);

function patternOf(form: string): string {
  const literal = form.replaceAll(/[+/]/g, '\\$&');
  return isUrl(form) ? `${literal}[\\s\\S]+` : literal;
}

/** Returns the kind of store that `--store` selects. Throws a `StoreUrlError` if there is none. */
export function storeKind(url: string): StoreKind {
  const [start] = /^[a-z][a-z\d+.-]{0,30}:\/\//i.exec(url) ?? [url];
  const kind = STORE_KINDS.find(({ forms }) => forms.includes(start));
  if (kind !== undefined) return kind;
  throw new StoreUrlError(
    isUrl(start) ? `an address that begins with \`${start}\`` : 'text without ://',
  );
}

/** Returns why a value of `--store` is invalid, without parts that may be secret. */
export function storeProblem(url: string): string | undefined {
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
