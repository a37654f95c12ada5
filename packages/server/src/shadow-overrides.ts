/**
 * Shadow mode of policies, set through the API. It takes precedence over the files, also after a
 * reload, until it is removed. Overrides of unknown policies are kept, without effect.
 */
import { expected, isRecord } from 'sluice/engine';

export interface ShadowOverride {
  readonly policy: string;
  /** Null removes the override: then `shadow` of the files applies. */
  readonly shadow: boolean | null;
}

/** A change through the API, in this process or in another worker. */
export interface ShadowChange extends ShadowOverride {
  /** Whether the change came from another process, so it is not forwarded. */
  readonly isRemote: boolean;
}

export type ShadowListener = (change: ShadowChange) => void;

export interface ShadowOptions {
  /** For a change that came from another process. */
  readonly isRemote?: boolean;
}

export const MAX_SHADOW_OVERRIDES = 1000;

export class ShadowOverrides {
  readonly #overrides = new Map<string, boolean>();
  readonly #listeners: ShadowListener[] = [];

  /** Returns the override of a policy, if any. */
  get(policy: string): boolean | undefined {
    return this.#overrides.get(policy);
  }

  /** Returns all overrides, sorted by policy. */
  list(): readonly { readonly policy: string; readonly shadow: boolean }[] {
    const overrides = [...this.#overrides].map(([policy, shadow]) => ({ policy, shadow }));
    return overrides.sort((a, b) => (a.policy < b.policy ? -1 : 1));
  }

  /** Adds a listener. It is also called if the value is the same, which may not be saved yet. */
  onChange(listener: ShadowListener): void {
    this.#listeners.push(listener);
  }

  /** The caller has checked that the policy exists. */
  set({ policy, shadow }: ShadowOverride, { isRemote = false }: ShadowOptions = {}): void {
    if (shadow === null) this.#overrides.delete(policy);
    else {
      // The process that accepted a remote change has checked the maximum.
      if (
        !isRemote &&
        !this.#overrides.has(policy) &&
        this.#overrides.size >= MAX_SHADOW_OVERRIDES
      ) {
        const what = `at most ${MAX_SHADOW_OVERRIDES} policies with shadow mode set by the API`;
        throw expected('ERR_INVALID_OPTION', what, MAX_SHADOW_OVERRIDES + 1);
      }
      this.#overrides.set(policy, shadow);
    }
    for (const listener of this.#listeners) listener({ policy, shadow, isRemote });
  }
}

/** Validates a message from another process. */
export function shadowOverrideOf(body: unknown): ShadowOverride {
  const { policy, shadow } = isRecord(body) ? body : {};
  if (typeof policy === 'string' && (shadow === null || typeof shadow === 'boolean')) {
    return { policy, shadow };
  }
  throw expected('ERR_INVALID_OPTION', 'a policy, and true, false or null', body);
}
