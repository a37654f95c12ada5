/**
 * What the API says of policies: in shadow or enforced. Its word on a policy goes before what the
 * files say, also when they are read again, until it is taken away. Those on policies that are not
 * served are kept, and mean nothing until they are.
 */
import { expected, isRecord } from 'sluice/engine';

export interface ShadowOverride {
  readonly policy: string;
  /** Null takes the API's word away: then the files' counts. */
  readonly shadow: boolean | null;
}

/** A change that the API made, here or in another process of the same service. */
export interface ShadowChange extends ShadowOverride {
  /** Whether another process told us, so that nobody has to be told again. */
  readonly isRemote: boolean;
}

export type ShadowListener = (change: ShadowChange) => void;

export interface ShadowOptions {
  /** For changes that another process made and told us of. */
  readonly isRemote?: boolean;
}

export const MAX_SHADOW_OVERRIDES = 1000;

export class ShadowOverrides {
  readonly #words = new Map<string, boolean>();
  readonly #listeners: ShadowListener[] = [];

  /** The API's word on a policy, if it has one. */
  get(policy: string): boolean | undefined {
    return this.#words.get(policy);
  }

  /** All of them, by policy. */
  list(): readonly { readonly policy: string; readonly shadow: boolean }[] {
    const words = [...this.#words].map(([policy, shadow]) => ({ policy, shadow }));
    return words.sort((a, b) => (a.policy < b.policy ? -1 : 1));
  }

  /** Has every change told; also one to what was so already, which may not be written yet. */
  onChange(listener: ShadowListener): void {
    this.#listeners.push(listener);
  }

  /** The caller knows that the policy exists. */
  set({ policy, shadow }: ShadowOverride, { isRemote = false }: ShadowOptions = {}): void {
    if (shadow === null) this.#words.delete(policy);
    else {
      // Whoever tells us has counted them.
      if (!isRemote && !this.#words.has(policy) && this.#words.size >= MAX_SHADOW_OVERRIDES) {
        const what = `at most ${MAX_SHADOW_OVERRIDES} policies put in or out of shadow by the API`;
        throw expected('ERR_INVALID_OPTION', what, MAX_SHADOW_OVERRIDES + 1);
      }
      this.#words.set(policy, shadow);
    }
    for (const listener of this.#listeners) listener({ policy, shadow, isRemote });
  }
}

/** Reads what another process says. */
export function shadowOverrideOf(body: unknown): ShadowOverride {
  const { policy, shadow } = isRecord(body) ? body : {};
  if (typeof policy === 'string' && (shadow === null || typeof shadow === 'boolean')) {
    return { policy, shadow };
  }
  throw expected('ERR_INVALID_OPTION', 'a policy, and true, false or null', body);
}
