/**
 * Shadow overrides: the shadow mode of policies, set through the API. A shadow override takes
 * precedence over the files, also after a reload, until it is removed. Shadow overrides of unknown
 * policies are kept, without effect.
 */
import { expected, isRecord } from 'sluice/engine';

export interface ShadowOverride {
  readonly policy: string;
  /** Null removes the override, so that `shadow` of the files applies. */
  readonly shadow: boolean | null;
}

/** A change through the API, in this process or in another worker. */
export interface ShadowChange extends ShadowOverride {
  /**
   * Whether the change came from another process. Such a change is not sent to other processes
   * again.
   */
  readonly isRemote: boolean;
}

export type ShadowListener = (change: ShadowChange) => void;

export interface ShadowOptions {
  /** Whether the change came from another process. Default false. */
  readonly isRemote?: boolean;
}

export const MAX_SHADOW_OVERRIDES = 1000;

export class ShadowOverrides {
  readonly #overrides = new Map<string, boolean>();
  readonly #listeners: ShadowListener[] = [];

  /** Returns the override of a policy; undefined if there is none. */
  get(policy: string): boolean | undefined {
    return this.#overrides.get(policy);
  }

  /** Returns all overrides, sorted by policy. */
  list(): readonly { readonly policy: string; readonly shadow: boolean }[] {
    const overrides = [...this.#overrides].map(([policy, shadow]) => ({ policy, shadow }));
    return overrides.sort((a, b) => (a.policy < b.policy ? -1 : 1));
  }

  /**
   * Adds a listener. It is also called if a policy is set to the value that it already has, because
   * that value may not be saved yet.
   */
  onChange(listener: ShadowListener): void {
    this.#listeners.push(listener);
  }

  /** Sets or removes an override. The caller has checked that the policy exists. */
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

/** Returns the override in a message from another process. Throws if the message is invalid. */
export function shadowOverrideOf(body: unknown): ShadowOverride {
  const { policy, shadow } = isRecord(body) ? body : {};
  if (typeof policy === 'string' && (shadow === null || typeof shadow === 'boolean')) {
    return { policy, shadow };
  }
  throw expected('ERR_INVALID_OPTION', 'a policy, and true, false or null', body);
}
