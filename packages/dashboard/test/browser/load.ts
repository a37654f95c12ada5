/** Callers that ask a service over HTTP all the time, and count what they are told. */
import { setTimeout as sleep } from 'node:timers/promises';
import { policy, type Running } from '../../../server/test/running.ts';
import { eventually } from './stage.ts';

export interface Check {
  readonly policy: string;
  readonly key: string;
  readonly cost?: number;
}

interface Told {
  readonly allowed: boolean;
  readonly shadow?: readonly { readonly allowed: boolean }[];
}

/** Policies of every kind: with room, without, in shadow, and one that nobody asks for. */
export const POLICIES = [
  policy('perMinute', 5, '1m', { algorithm: 'sliding-log' }),
  policy('perHour', 1_000_000, '1h', { algorithm: 'sliding-counter' }),
  policy('perDay', 12, '1d', { algorithm: 'fixed-window' }),
  policy('perSecond', 20, '1s', { algorithm: 'token-bucket', burst: 30 }),
  policy('parts', 30, '1m', { algorithm: 'sliding-buckets', buckets: 6 }),
  policy('shadowed', 3, '1h', { algorithm: 'sliding-log', shadow: true }),
  policy('idle', 10, '1m'),
];

const PAUSE_MS = 60;

/** A few clients, one of which wants more than all others, and more from turn to turn. */
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
  /** Of limits in shadow, what is allowed is not counted by the service either. */
  readonly told = { allowed: 0, denied: 0, shadowDenied: 0 };
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
      for (const decision of json.decisions as Told[]) this.#count(decision);
      await sleep(PAUSE_MS);
    }
  }

  #count({ allowed, shadow }: Told): void {
    if (shadow !== undefined) this.told.shadowDenied += shadow[0].allowed ? 0 : 1;
    else if (allowed) this.told.allowed++;
    else this.told.denied++;
  }

  async stop(): Promise<void> {
    this.#isOn = false;
    await this.#ended;
  }

  /** Stops, and waits until all that was told is history. */
  async rest(): Promise<void> {
    await this.stop();
    await eventually(async () => {
      const { json } = await this.#running.get('/v1/series?seconds=600');
      return sums(json.total);
    }).toEqual(this.told);
  }
}

export const sum = (counts: readonly number[]): number =>
  counts.reduce((all, each) => all + each, 0);

const sums = (total: Record<string, number[]>): Load['told'] => ({
  allowed: sum(total.allowed),
  denied: sum(total.denied),
  shadowDenied: sum(total.shadowDenied),
});

const COUNTED = ['allowed', 'denied', 'shadowDenied', 'degraded', 'shadowAllowed'] as const;

/** What the service remembers, by the second as pages in UTC write it, in the order above. */
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
