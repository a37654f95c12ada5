/**
 * The store of a worker: sends calls to the current store process. When the store process exits,
 * calls in flight are rejected. Further calls are rejected at once, until the supervisor sends the
 * worker a channel to a new store process. If the store process hangs, the failure policy that
 * wraps this store ends the call at its deadline.
 */
import type { Duplex } from 'node:stream';
import {
  type Adjustment,
  type Check,
  type CheckResult,
  type KeyState,
  type LimitParams,
  type Policy,
  SluiceError,
  type Store,
} from 'sluice';
import type { OnSent, Recipient } from 'sluice/engine';
import { RemoteStore } from './remote-store.ts';

export class ReconnectingStore implements Store {
  readonly features = ['concurrency', 'block'] as const;
  #current: RemoteStore | undefined = undefined;
  /** `size`, `evicted` and `guaranteedKeys` of the store process that exited last. */
  #last: Pick<Store, 'size' | 'evicted' | 'guaranteedKeys'> = { size: 0, evicted: 0 };
  readonly #listeners = new Set<() => void>();

  /** Sends all further calls to the store process at the other end of `channel`. */
  connect(channel: Duplex): void {
    const store = new RemoteStore(channel);
    void this.#current?.close();
    this.#current = store;
    channel.once('close', () => {
      const { size, evicted, guaranteedKeys } = store;
      this.#last = { size, evicted, guaranteedKeys };
      if (this.#current === store) this.#current = undefined;
    });
    for (const listener of this.#listeners) listener();
  }

  /** Calls `listener` after each `connect`. Returns a function that removes the listener. */
  onReady(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get size(): number {
    return (this.#current ?? this.#last).size ?? 0;
  }

  get evicted(): number {
    return Math.max(this.#current?.evicted ?? 0, this.#last.evicted ?? 0);
  }

  get guaranteedKeys(): number | undefined {
    return (this.#current ?? this.#last).guaranteedKeys;
  }

  decide(checks: readonly Check[], nowMs?: number): Promise<readonly CheckResult[]> {
    return this.#withStore((store) => store.decide(checks, nowMs));
  }

  submit(
    check: Check,
    nowMs: number | undefined,
    recipient: Recipient<readonly CheckResult[]>,
  ): void {
    if (this.#current === undefined) recipient.failed(notConnected());
    else this.#current.submit(check, nowMs, recipient);
  }

  adjust(
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<readonly number[]> {
    return this.#withStore((store) => store.adjust(adjustments, nowMs, onSent));
  }

  adjustOnce(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
    client?: string,
  ): Promise<readonly number[] | undefined> {
    return this.#withStore((store) => store.adjustOnce(id, adjustments, nowMs, onSent, client));
  }

  reset(policy: Policy, key: string, nowMs?: number, onSent?: OnSent): Promise<void> {
    return this.#withStore((store) => store.reset(policy, key, nowMs, onSent));
  }

  block(
    policy: Policy,
    key: string,
    forMs: number,
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<void> {
    return this.#withStore((store) => store.block(policy, key, forMs, nowMs, onSent));
  }

  inspect(
    policy: Policy,
    params: LimitParams,
    key: string,
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<KeyState | undefined> {
    return this.#withStore((store) => store.inspect(policy, params, key, nowMs, onSent));
  }

  async close(): Promise<void> {
    await this.#current?.close();
  }

  /** Passes the current store to `call`. Rejects if no store process is connected. */
  async #withStore<T>(call: (store: RemoteStore) => Promise<T>): Promise<T> {
    if (this.#current === undefined) throw notConnected();
    return call(this.#current);
  }
}

/**
 * Returns the error for a call that was not sent. Because of `notDone`, the receipt of such a call
 * is not marked as used.
 */
const notConnected = (): SluiceError =>
  Object.assign(new SluiceError('ERR_STORE_UNAVAILABLE', 'The store process is not running'), {
    notDone: true,
  });
