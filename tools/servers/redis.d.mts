/** What Redis replies; errors are thrown, but a list may have some inside. */
export type Reply = string | number | null | Error | Reply[];

type Word = string | number;

export interface CommandOptions {
  /** The authority to trust, as PEM text, if the port speaks TLS. */
  readonly tls?: string;
  readonly username?: string;
  readonly password?: string;
  /** 10,000 unless told; after so much silence it rejects. */
  readonly timeoutMs?: number;
  /** How words become bytes and bytes words; latin1 keeps all bytes apart. */
  readonly encoding?: 'utf8' | 'latin1';
}

/** Sends one command to a port of 127.0.0.1, over a connection of its own. */
export function command<T extends Reply = Reply>(
  port: number,
  words: readonly Word[],
  options?: CommandOptions,
): Promise<T>;

export interface RedisOptions {
  /** More words for the command line of redis-server; the later of two settings counts. */
  readonly args?: readonly Word[];
  /** A free one unless told. */
  readonly port?: number;
  /** Where data is kept, if `args` ask for that; it is not removed at the end. */
  readonly folder?: string;
  readonly password?: string;
  /** Speaks TLS and nothing else. */
  readonly tls?: boolean;
  /** Users, each as after ACL SETUSER: `'reader on >secret ~* +get'`. */
  readonly acl?: readonly string[];
}

export interface RedisServer {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /** Of the process that runs now: it changes with each restart. */
  readonly pid: number;
  /** The authority that signed the server's certificate, as PEM text. */
  readonly tlsCa?: string;
  /** The end of what the server has printed. */
  readonly output: string;
  /** Sends a command as an administrator, whatever the users, passwords and TLS. */
  command<T extends Reply = Reply>(...words: Word[]): Promise<T>;
  /** SIGSTOP: the port accepts connections, but nobody answers. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** SIGKILL, and waits until the process is gone. */
  kill(): Promise<void>;
  /** Starts it again on the same port with the same settings; ends it first if it runs. */
  restart(): Promise<void>;
  /** Ends it for good and removes its folder. */
  stop(): Promise<void>;
}

export function startRedis(options?: RedisOptions): Promise<RedisServer>;

export interface SentinelGroup {
  /** Three, of which two have to agree that the master is down. */
  readonly sentinels: readonly RedisServer[];
  readonly masterName: string;
  /** The master at the start; after a failover it may be a replica, or gone. */
  readonly master: RedisServer;
  /** The two replicas at the start. */
  readonly replicas: readonly RedisServer[];
  /** The port of the master that all living sentinels name; waits until they agree. */
  currentMaster(): Promise<number>;
  /** Has the first sentinel fail over though the master is well, and waits until it is done. */
  failover(): Promise<void>;
  stop(): Promise<void>;
}

/** Resolves when all sentinels know each other, the master and both replicas. */
export function startSentinel(): Promise<SentinelGroup>;

export interface MoveOptions {
  /** How many portions the keys go in, 20 unless told, but at least one key each. */
  readonly steps?: number;
  /** How long it waits before and after each portion, 10 unless told. */
  readonly pauseMs?: number;
}

export interface Cluster {
  /** Three masters, then the replica of each in the same order. */
  readonly nodes: readonly RedisServer[];
  readonly urls: readonly string[];
  /** Which of the nodes serves this slot now, or -1. */
  ownerOf(slot: number): Promise<number>;
  /** Moves a slot with its keys to a master, live: clients meet ASK and TRYAGAIN meanwhile. */
  moveSlot(slot: number, toNode: number, options?: MoveOptions): Promise<void>;
  stop(): Promise<void>;
}

export interface ClusterOptions {
  /** A master that is silent for so long is replaced (default: 1,000). */
  readonly nodeTimeoutMs?: number;
}

/** Resolves when all six nodes find the cluster whole and the replicas are connected. */
export function startCluster(options?: ClusterOptions): Promise<Cluster>;
