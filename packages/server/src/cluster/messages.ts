/**
 * Messages over Node's IPC channels between the supervisor and its child processes. Workers send
 * checks to the store process over channels of their own (`operations.ts`).
 *
 * Calls have a result and a timeout (see `rpc-channel.ts`):
 *
 *     supervisor to worker   slice      add a part of the next configuration
 *                            start      serve with the configuration that was sent in slices, and
 *                                       with these settings and changes made through the API
 *                            configure  apply the outcome of a reload; if it has no problems, the
 *                                       configuration was sent in slices before
 *                            override   apply an override that was set or deleted through the API
 *                            shadow     apply a shadow override
 *                            query      run the worker's handler of a query (metrics, top keys)
 *                            stop       complete the requests in flight, then exit
 *     worker to supervisor   reload     reload the files for all workers
 *                            override   an override was set or deleted through this worker's API
 *                            shadow     a shadow override was set through this worker's API
 *                            gather     run a query on all workers and return their results
 *     supervisor to store    load       reply when the modules are loaded
 *       process              open       create the store and serve the workers
 *
 * Notifications have no result:
 *
 *     child to supervisor    alive       heartbeat; the store process adds the sizes of its store
 *     worker to supervisor   received    the connection with this id has arrived
 *     store to supervisor    violation   a worker sent an invalid line and must be killed
 *     supervisor to worker   connection  a client's socket
 *                            store       a socket to a new store process
 *     supervisor to store    channel     a socket to a new worker
 */
import type { ConfigProblem, OverrideConfig } from '../config/model.ts';
import type { ListenerName } from '../http/connection-source.ts';
import type { Listen, Settings } from '../settings.ts';
import type { ShadowOverride } from '../shadow-overrides.ts';

/** Body of the call `start`. */
export interface StartParameters {
  readonly settings: Settings;
  /** Number of reloads since the start of the service, by result. */
  readonly reloads: ReloadCounts;
  readonly overrides: readonly OverrideConfig[];
  readonly shadowOverrides: readonly ShadowOverride[];
  /** Whether all overrides are saved in the overrides file. */
  readonly isSaved: boolean;
  /** Host and port of each listener of the supervisor. */
  readonly listeners: Listeners;
  /** Slot of the worker (see `process-slot.ts`), for the log. */
  readonly worker: number;
}

export interface ReloadCounts {
  readonly ok: number;
  readonly failed: number;
}

/** Body of the call `open`. */
export interface StoreParameters {
  readonly maxKeys: number;
  /** Number of keys that earlier store processes evicted. */
  readonly evicted: number;
  /**
   * Slots of the workers that have a channel from the start. The notification `channel` adds later
   * workers.
   */
  readonly workers: readonly number[];
}

export type Listeners = Readonly<Partial<Record<ListenerName, Listen>>>;

/** Outcome of a reload. If `problems` is empty, the configuration was sent in slices. */
export interface ReloadOutcome {
  readonly problems: readonly ConfigProblem[];
  readonly fingerprint?: string | undefined;
  /** Set if the files are the same as at the last reload. */
  readonly isUnchanged?: boolean;
}

/** An override that was set, or deleted if `override` is missing. */
export interface OverrideChange {
  readonly policy: string;
  readonly key: string;
  readonly override?: OverrideConfig;
}

/** Names of the calls that send a change made through the API. */
export type ApiChangeName = 'override' | 'shadow';
export type ApiChange = OverrideChange | ShadowOverride;

/** Result of sending a change, when all workers have applied it. */
export interface ApiChangeResult {
  /** Whether the change is saved in the overrides file. */
  readonly isSaved: boolean;
}

export interface GroupQuery {
  readonly name: string;
  readonly detail?: unknown;
}

/** Timeouts of calls between the supervisor and the workers. */
export const CALL_TIMEOUT_MS = {
  start: 30_000,
  reload: 30_000,
  change: 5000,
  query: 5000,
};

/** In a worker: file descriptor of its first channel to the store process. 3 is the IPC channel. */
export const STORE_FD = 4;

/** In the store process: returns the file descriptor of the channel to the worker in a slot. */
export const storeChannelFd = (slot: number): number => STORE_FD + slot - 1;
