/**
 * Messages between the supervisor, the workers and the store process. All are plain data.
 *
 * Calls, which have a result (see `rpc-channel.ts`):
 *
 *     supervisor to worker   slice      adds a slice of the next configuration
 *                            start      serve with these settings, the configuration that was sent
 *                                       in slices, and the changes made through the API
 *                            configure  apply the outcome of a reload, as above
 *                            override   apply an override that was set or deleted through the API
 *                            shadow     apply a shadow override
 *                            query      run a handler of the process group (metrics, top keys)
 *                            stop       complete the requests in flight, then exit
 *     worker to supervisor   reload     reload the files for all workers
 *                            override   an override was set or deleted through this worker's API
 *                            shadow     a shadow override was set
 *                            gather     query all workers
 *     supervisor to store    load       returns when the modules are loaded
 *                            open       open the embedded store with these settings
 *
 * Notifications: `alive`, a heartbeat; `connection` with a socket, for a worker, which confirms it
 * with `taken`; `store` with the worker's end of a channel to the store process; `channel` with the
 * other end, for the store process; `violation` from the store process, if a worker has violated
 * the protocol.
 */
import type { ConfigProblem, OverrideConfig } from '../config/model.ts';
import type { ListenerName } from '../http/connection-source.ts';
import type { Listen, Settings } from '../settings.ts';
import type { ShadowOverride } from '../shadow-overrides.ts';

export interface StartOrder {
  readonly settings: Settings;
  /** Reloads since the start of the service, by result. */
  readonly reloads: ReloadCounts;
  readonly overrides: readonly OverrideConfig[];
  readonly shadowOverrides: readonly ShadowOverride[];
  /** Whether the overrides are saved in a file. */
  readonly isSaved: boolean;
  /** Addresses that the supervisor listens on. */
  readonly listeners: Listeners;
  /** Number of the worker, for the log. */
  readonly worker: number;
}

export interface ReloadCounts {
  readonly ok: number;
  readonly failed: number;
}

export interface StoreOrder {
  readonly maxKeys: number;
  /** Evictions of the store processes before it. */
  readonly evicted: number;
  /** Slots of the running workers. */
  readonly workers: readonly number[];
}

export type Listeners = Readonly<Partial<Record<ListenerName, Listen>>>;

/** Outcome of a reload. Without problems, the configuration was sent in slices. */
export interface ReloadOutcome {
  readonly problems: readonly ConfigProblem[];
  readonly fingerprint?: string | undefined;
  /** Set if the files have the bytes of the last reload. */
  readonly isUnchanged?: boolean;
}

/** Without `override` it was deleted. */
export interface OverrideChange {
  readonly policy: string;
  readonly key: string;
  readonly override?: OverrideConfig;
}

/** A change made through the API, by the name of the call that carries it. */
export type ApiChangeName = 'override' | 'shadow';
export type ApiChange = OverrideChange | ShadowOverride;

/** Returned when all workers have applied a change. */
export interface ApiChangeResult {
  readonly isSaved: boolean;
}

export interface GroupQuery {
  readonly name: string;
  readonly detail?: unknown;
}

/** Timeouts of calls between the supervisor and the workers. */
export const DEADLINE_MS = {
  start: 30_000,
  reload: 30_000,
  change: 5000,
  query: 5000,
};

/** File descriptor of a worker's first channel to the store process; 3 is Node's own channel. */
export const STORE_FD = 4;

/** File descriptor, in the store process, of the channel to the worker in a slot. */
export const storeChannelFd = (slot: number): number => STORE_FD + slot - 1;
