/**
 * What the supervisor and the workers ask each other, by name. All of it is plain data.
 *
 *     supervisor to worker   slice      a slice of the next configuration
 *                            start      serve with these settings, the configuration that came in
 *                                       slices, and what the API has set
 *                            configure  a reload's outcome; the configuration came in slices
 *                            override   what counts for a key of a policy from now on
 *                            shadow     what the API says of a policy from now on
 *                            question   a question of one of the crew
 *                            leave      answer what is in flight, and go
 *     worker to supervisor   reload     read the files again, for everybody
 *                            override   a change that was made here, for everybody
 *                            shadow     the same
 *                            gather     a question for the whole crew
 *     supervisor to store    open       the settings of the embedded store
 *
 * Messages without an answer: `alive`, a heartbeat; `connection` with a socket, for a worker, which
 * confirms it with `taken`; `store` with the worker's end of a channel to the store process;
 * `channel` with the other end, for the store process; `violation`, from the store process, if what
 * a worker sent is not of the protocol.
 */
import type { ConfigProblem, OverrideConfig } from '../config/model.ts';
import type { ListenerName } from '../http/connection-source.ts';
import type { Listen, Settings } from '../settings.ts';
import type { ShadowOverride } from '../shadow-overrides.ts';

export interface StartOrder {
  readonly settings: Settings;
  /** How many reloads there were before it, by result. */
  readonly reloads: ReloadCounts;
  readonly overrides: readonly OverrideConfig[];
  readonly shadowOverrides: readonly ShadowOverride[];
  /** Whether they are in a file. */
  readonly isSaved: boolean;
  /** Where the supervisor takes connections. */
  readonly listeners: Listeners;
  /** For the log. */
  readonly worker: number;
}

export interface ReloadCounts {
  readonly ok: number;
  readonly failed: number;
}

export interface StoreOrder {
  readonly maxKeys: number;
  /** How many keys the store processes before it evicted. */
  readonly evicted: number;
  /** The workers whose channels it starts with, by number. */
  readonly workers: readonly number[];
}

export type Listeners = Readonly<Partial<Record<ListenerName, Listen>>>;

/** What became of reading the files. Without problems the configuration was sent in slices. */
export interface ReloadOutcome {
  readonly problems: readonly ConfigProblem[];
  readonly fingerprint?: string | undefined;
  /** Set if the files were those of the last reload. */
  readonly isUnchanged?: boolean;
}

/** What the API says of a key: a limit of its own, or nothing any more. */
export interface OverrideChange {
  readonly policy: string;
  readonly key: string;
  readonly override?: OverrideConfig;
}

/** What the API has set or taken away, by the name of the question that tells it. */
export type StateChangeName = 'override' | 'shadow';
export type StateChange = OverrideChange | ShadowOverride;

/** All go by it now. */
export interface StateChangeResult {
  readonly isSaved: boolean;
}

export interface GroupRequest {
  readonly question: string;
  readonly detail?: unknown;
}

/** How long the supervisor and the workers wait for each other before they go on without. */
export const DEADLINE_MS = {
  start: 30_000,
  reload: 30_000,
  word: 5000,
  question: 5000,
};

/** Where a worker and the store process find channels to each other; 3 is Node's own. */
export const STORE_FD = 4;
