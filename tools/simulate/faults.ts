/** The faults of a run: which can occur, how often, and how often they did. */
import type { Random } from './random.ts';

/** Faults of the network, each with the part of the messages that it affects. */
const NETWORK = {
  'slow message': 0.03,
  'lost command': 0.02,
  'lost reply': 0.02,
  'duplicated command': 0.05,
  'duplicated reply': 0.05,
  'closed connection': 0.01,
} as const;

/** Faults of a process, each with the part of its calls after which it occurs. */
const PROCESS = {
  pause: 0.01,
  suspension: 0.01,
  crash: 0.005,
  shutdown: 0.005,
  'clock set forward': 0.01,
  'clock set back': 0.01,
} as const;

export type NetworkFault = keyof typeof NETWORK;
export type ProcessFault = keyof typeof PROCESS;
/** Some faults follow from others: a command overtakes an earlier one, or a timer is late. */
export type Fault = NetworkFault | ProcessFault | 'reordered command' | 'late timer';

export const PROCESS_FAULTS = Object.keys(PROCESS) as ProcessFault[];
export const FAULTS: readonly Fault[] = [
  ...(Object.keys(NETWORK) as NetworkFault[]),
  'reordered command',
  ...PROCESS_FAULTS,
  'late timer',
];

/** The part of the faults that can occur in a run. */
const ENABLED = 0.35;

export class Faults {
  readonly counts = Object.fromEntries(FAULTS.map((fault) => [fault, 0])) as Record<Fault, number>;
  readonly #random: Random;
  readonly #chances: Readonly<Record<NetworkFault | ProcessFault, number>>;

  readonly #onFault: () => void;

  constructor(random: Random, onFault: () => void) {
    this.#random = random;
    this.#onFault = onFault;
    const entries = Object.entries({ ...NETWORK, ...PROCESS }).map(([fault, part]) => [
      fault,
      random.chance(ENABLED) ? part * random.between(0.3, 3) : 0,
    ]);
    const chances = Object.fromEntries(entries);
    // A lease has two clocks, because one of them may miss time. If both do, it can be too long.
    if (chances.suspension > 0) chances['clock set back'] = 0;
    this.#chances = chances;
  }

  /** Whether a fault occurs now. */
  occurs(fault: NetworkFault | ProcessFault): boolean {
    const chance = this.#chances[fault];
    if (chance === 0 || !this.#random.chance(chance)) return false;
    this.count(fault);
    return true;
  }

  count(fault: Fault): void {
    this.counts[fault]++;
    this.#onFault();
  }
}
