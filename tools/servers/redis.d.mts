/** A reply of Redis. Errors are thrown, but a list may contain some. */
export type Reply = string | number | null | Error | Reply[];

type Argument = string | number;

export interface CommandOptions {
  /** Certificate authority as PEM text, if the port uses TLS. */
  readonly tls?: string;
  readonly username?: string;
  readonly password?: string;
  /** Rejects after this time without a reply (default 10,000). */
  readonly timeoutMs?: number;
  /** Encoding of arguments and replies; latin1 preserves all bytes. */
  readonly encoding?: 'utf8' | 'latin1';
}

/** Sends one command to a port of 127.0.0.1, over a new connection. */
export function command<T extends Reply = Reply>(
  port: number,
  args: readonly Argument[],
  options?: CommandOptions,
): Promise<T>;

export interface RedisOptions {
  /** Additional arguments of redis-server. Later settings override earlier ones. */
  readonly args?: readonly Argument[];
  /** Default: a free port. */
  readonly port?: number;
  /** Data folder, if `args` enable persistence. It is not deleted at the end. */
  readonly folder?: string;
  readonly password?: string;
  /** Accepts only TLS. */
  readonly tls?: boolean;
  /** Users, each as after ACL SETUSER: `'reader on >secret ~* +get'`. */
  readonly acl?: readonly string[];
}

export interface RedisServer {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /** Of the current process; changes with each restart. */
  readonly pid: number;
  /** Certificate authority of the server, as PEM text. */
  readonly tlsCa?: string;
  /** The end of the server's output. */
  readonly output: string;
  /** Sends a command as administrator, independent of users, passwords and TLS. */
  command<T extends Reply = Reply>(...args: Argument[]): Promise<T>;
  /** SIGSTOP: the port accepts connections, but the server does not reply. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Sends SIGKILL and waits for the exit. */
  kill(): Promise<void>;
  /** Restarts it on the same port with the same settings. */
  restart(): Promise<void>;
  /** Stops it and deletes its folder. */
  stop(): Promise<void>;
}

export function startRedis(options?: RedisOptions): Promise<RedisServer>;

export interface SentinelGroup {
  /** Three, with a quorum of two. */
  readonly sentinels: readonly RedisServer[];
  readonly masterName: string;
  /** The initial master. After a failover it may be a replica, or stopped. */
  readonly master: RedisServer;
  /** The two initial replicas. */
  readonly replicas: readonly RedisServer[];
  /** Resolves to the master's port once all live sentinels agree. */
  currentMaster(): Promise<number>;
  /** Starts a planned failover by the first sentinel and waits until it is complete. */
  failover(): Promise<void>;
  stop(): Promise<void>;
}

/** Resolves when all sentinels know each other, the master and both replicas. */
export function startSentinel(): Promise<SentinelGroup>;

export interface MoveOptions {
  /** Number of portions in which keys are moved (default 20), each at least one key. */
  readonly steps?: number;
  /** Pause before and after each portion (default 10). */
  readonly pauseMs?: number;
}

export interface Cluster {
  /** Three masters, then the replica of each, in the same order. */
  readonly nodes: readonly RedisServer[];
  readonly urls: readonly string[];
  /** Returns the index of the node that owns this slot, or -1. */
  ownerOf(slot: number): Promise<number>;
  /** Migrates a slot to a master under load: clients receive ASK and TRYAGAIN meanwhile. */
  moveSlot(slot: number, toNode: number, options?: MoveOptions): Promise<void>;
  stop(): Promise<void>;
}

export interface ClusterOptions {
  /** Time after which an unresponsive master is replaced (default 1,000). */
  readonly nodeTimeoutMs?: number;
}

/** Resolves when all six nodes report a complete cluster and the replicas are connected. */
export function startCluster(options?: ClusterOptions): Promise<Cluster>;
