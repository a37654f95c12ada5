/** Clients that send checks over HTTP continuously and count the decisions. */
import { setTimeout as sleep } from 'node:timers/promises';
import { policy, type Running } from '../../../server/test/running.ts';
import { eventually } from './stage.ts';

export interface Check {
  readonly policy: string;
  readonly key: string;
  readonly cost?: number;
}

interface Decision {
  readonly allowed: boolean;
  readonly shadow?: readonly { readonly allowed: boolean }[];
}

/** Policies of every kind: below and at the limit, in shadow mode, and unused. */
export const POLICIES = [
  policy('perMinute', 5, '1m', { algorithm: 'sliding-log' }),
  policy('perHour', 1_000_000, '1h', { algorithm: 'sliding-counter' }),
  policy('perDay', 12, '1d', { algorithm: 'fixed-window' }),
  policy('perSecond', 20, '1s', { algorithm: 'token-bucket', burst: 30 }),
  policy('parts', 30, '1m', { algorithm: 'sliding-buckets', buckets: 6 }),
  policy('shadowed', 3, '1h', { algorithm: 'sliding-log', shadow: true }),
  policy('idle', 10, '1m'),
];

const PAUSE_MS = 100;

/** A few clients, one of them with a growing rate. */
export function mixed(turn: number): readonly Check[] {
  const client = `user:${turn % 7}`;
  return [
    { policy: 'perMinute', key: client },
    { policy: 'perHour', key: client, cost: 1 + (turn % 3) },
    { policy: 'perDay', key: 'greedy' },
    ...Array.from({ length: 1 + (turn % 5) }, () => ({ policy: 'perSecond', key: 'ada' })),
    { policy: 'parts', key: client },
    { policy: 'shadowed', key: client },
  ];
}

export class Load {
  /** Shadow admissions are not counted. */
  readonly received = { allowed: 0, denied: 0, shadowDenied: 0 };
  readonly #running: Running;
  readonly #checksOf: (turn: number) => readonly Check[];
  #turn = 0;
  #isOn = false;
  #ended: Promise<void> = Promise.resolve();

  constructor(running: Running, checksOf: (turn: number) => readonly Check[] = mixed) {
    this.#running = running;
    this.#checksOf = checksOf;
    this.start();
  }

  start(): void {
    if (this.#isOn) return;
    this.#isOn = true;
    this.#ended = this.#run();
  }

  async #run(): Promise<void> {
    while (this.#isOn) {
      const checks = this.#checksOf(this.#turn++);
      const { json } = await this.#running.post('/v1/check', { checks });
      for (const decision of json.decisions as Decision[]) this.#count(decision);
      await sleep(PAUSE_MS);
    }
  }

  #count({ allowed, shadow }: Decision): void {
    if (shadow !== undefined) this.received.shadowDenied += shadow[0].allowed ? 0 : 1;
    else if (allowed) this.received.allowed++;
    else this.received.denied++;
  }

  async stop(): Promise<void> {
    this.#isOn = false;
    await this.#ended;
  }

  /** Stops, and waits until the series contains all decisions. */
  async rest(): Promise<void> {
    await this.stop();
    await eventually(async () => {
      const { json } = await this.#running.get('/v1/series?seconds=600');
      return sums(json.total);
    }).toEqual(this.received);
  }
}

export const sum = (counts: readonly number[]): number =>
  counts.reduce((all, each) => all + each, 0);

const sums = (total: Record<string, number[]>): Load['received'] => ({
  allowed: sum(total.allowed),
  denied: sum(total.denied),
  shadowDenied: sum(total.shadowDenied),
});

const COUNTED = ['allowed', 'denied', 'shadowDenied', 'degraded', 'shadowAllowed'] as const;

/** The series of the service by second (UTC), in the order of COUNTED. */
export async function remembered(
  running: Running,
  policy?: string,
): Promise<ReadonlyMap<string, readonly number[]>> {
  const query = policy === undefined ? '' : `&policy=${policy}`;
  const { json } = await running.get(`/v1/series?seconds=600${query}`);
  const series = policy === undefined ? json.total : json.policies[0];
  return new Map(
    (series.allowed as number[]).map((_, at) => [
      new Date(json.startMs + at * 1000).toISOString().slice(11, 19),
      COUNTED.map((field) => series[field][at] as number),
    ]),
  );
}
