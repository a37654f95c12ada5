/**
 * The store of a worker: passes calls to the store process. After that has exited, calls fail at
 * once until the supervisor has connected the worker to a new one.
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

export class HostedStore implements Store {
  #current: RemoteStore | undefined = undefined;
  /** Figures of the last store process. */
  #last: Pick<Store, 'size' | 'evicted' | 'guaranteedKeys'> = { size: 0, evicted: 0 };
  readonly #listeners = new Set<() => void>();

  /** Uses the store process at the other end of a channel. */
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
    return this.#connected((store) => store.decide(checks, nowMs));
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
    return this.#connected((store) => store.adjust(adjustments, nowMs, onSent));
  }

  adjustOnce(
    id: string,
    adjustments: readonly Adjustment[],
    nowMs?: number,
    onSent?: OnSent,
    client?: string,
  ): Promise<readonly number[] | undefined> {
    return this.#connected((store) => store.adjustOnce(id, adjustments, nowMs, onSent, client));
  }

  reset(policy: Policy, key: string, nowMs?: number, onSent?: OnSent): Promise<void> {
    return this.#connected((store) => store.reset(policy, key, nowMs, onSent));
  }

  inspect(
    policy: Policy,
    params: LimitParams,
    key: string,
    nowMs?: number,
    onSent?: OnSent,
  ): Promise<KeyState | undefined> {
    return this.#connected((store) => store.inspect(policy, params, key, nowMs, onSent));
  }

  async close(): Promise<void> {
    await this.#current?.close();
  }

  async #connected<T>(call: (store: RemoteStore) => Promise<T>): Promise<T> {
    if (this.#current === undefined) throw notConnected();
    return call(this.#current);
  }
}

/** `notDone`: nothing was sent, so a receipt can still be settled. */
const notConnected = (): SluiceError =>
  Object.assign(new SluiceError('ERR_STORE_UNAVAILABLE', 'The store process is not running'), {
    notDone: true,
  });
