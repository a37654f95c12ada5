/** Produces the calls of the lab in order of time: generated, drawn or typed. */
import { adversaryOf, generateTraffic, momentsOf, type Piece, Random } from 'sluice-traffic/lab';
import { definePolicy } from './engine.ts';
import { type LabSettings, MAX_CALLS, policyOptions, SLOTS, type TrafficName } from './settings.ts';

export interface Call {
  readonly atMs: number;
  readonly cost: number;
  readonly key: string;
}

export interface Traffic {
  readonly calls: readonly Call[];
  readonly startMs: number;
  readonly endMs: number;
  /** Number of calls omitted because there are more than `MAX_CALLS`. */
  readonly omitted: number;
}

/** The key of traffic with a single client. */
export const SINGLE_CLIENT = 'caller';

/** Label and description of each traffic source. */
export const TRAFFIC_LABELS: Readonly<Record<TrafficName, readonly [string, string]>> = {
  boundary: [
    'Boundary burst',
    'Half of the calls right before a window boundary, half right after.',
  ],
  steady: ['Steady', 'Constant rate.'],
  bursts: ['Bursts', 'Three bursts per window.'],
  'flash-crowd': ['Flash crowd', 'Up to ten times the base rate.'],
  abuser: ['One abuser', 'One client sends as much as five others together.'],
  adversary: ['Adversary', 'The worst case of one algorithm.'],
  drawn: ['Drawn', 'Draw in the strip with a pointer or the arrow keys.'],
  typed: ['Typed', 'Time and cost of each call.'],
};

export function buildTraffic(settings: LabSettings): Traffic {
  switch (settings.traffic) {
    case 'drawn':
      return trafficOf(settings, drawnCalls(settings));
    case 'typed':
      return typedTraffic(settings);
    case 'adversary':
      return adversaryTraffic(settings);
    case 'bursts':
      return trafficOf(settings, burstCalls(settings));
    case 'boundary':
      // The traffic needs at least two windows to have a boundary between them.
      return generatedTraffic(
        settings,
        'boundary',
        Math.max(2 * settings.windowMs, lengthOf(settings)),
      );
    default:
      return generatedTraffic(settings, settings.traffic, lengthOf(settings));
  }
}

const lengthOf = ({ windows, windowMs }: LabSettings): number => windows * windowMs;

/** Returns traffic with the calls, at most `MAX_CALLS`. */
function trafficOf(
  settings: LabSettings,
  calls: readonly Call[],
  lengthMs = lengthOf(settings),
): Traffic {
  const { startMs } = settings;
  return {
    calls: calls.slice(0, MAX_CALLS),
    ...{ startMs, endMs: startMs + lengthMs },
    omitted: Math.max(0, calls.length - MAX_CALLS),
  };
}

const OTHER_CLIENTS = 5;

function generatedTraffic(
  settings: LabSettings,
  shape: 'boundary' | 'steady' | 'flash-crowd' | 'abuser',
  durationMs: number,
): Traffic {
  const { seed, calls, startMs, windowMs, cost } = settings;
  const hasClients = shape === 'abuser';
  const made = generateTraffic({
    ...{ shape, seed, startMs, windowMs, durationMs, requests: calls },
    clients: hasClients ? OTHER_CLIENTS : 1,
  });
  const all = Array.from(made, ({ timeMs, client }) => {
    return { atMs: timeMs, cost, key: hasClients ? client : SINGLE_CLIENT };
  });
  return trafficOf(settings, all, durationMs);
}

const BURSTS_PER_WINDOW = 3;
const BURST_SHARE = 0.08;

/** Returns three short bursts per window, without calls in between. */
function burstCalls(settings: LabSettings): readonly Call[] {
  const { seed, calls, startMs, windowMs, cost, windows } = settings;
  const eachMs = windowMs / BURSTS_PER_WINDOW;
  const pieces = Array.from({ length: windows * BURSTS_PER_WINDOW }, (): Piece[] => [
    { lengthMs: eachMs * (1 - BURST_SHARE), weight: 0, special: 0 },
    { lengthMs: eachMs * BURST_SHARE, weight: 1, special: 0 },
  ]).flat();
  const moments = momentsOf(pieces, startMs, calls, new Random(seed));
  return Array.from(moments, ({ timeMs }) => ({ atMs: timeMs, cost, key: SINGLE_CLIENT }));
}

/** Returns the drawn calls. The calls of a slot are evenly spaced. */
function drawnCalls(settings: LabSettings): readonly Call[] {
  const { slots, startMs, cost } = settings;
  const slotMs = lengthOf(settings) / SLOTS;
  return slots.flatMap((count, slot) =>
    Array.from({ length: count }, (_, at) => {
      const afterMs = (slot + (at + 0.5) / count) * slotMs;
      return { atMs: Math.floor(startMs + afterMs), cost, key: SINGLE_CLIENT };
    }),
  );
}

/** Returns the typed calls. The traffic lasts as many whole windows as the calls need. */
function typedTraffic(settings: LabSettings): Traffic {
  const { typed, windowMs, startMs } = settings;
  const lastMs = typed[typed.length - 1]?.atMs ?? startMs;
  const windows = Math.max(1, Math.ceil((lastMs + 1 - startMs) / windowMs));
  const calls = typed.map(({ atMs, cost }) => ({ atMs, cost, key: SINGLE_CLIENT }));
  return trafficOf(settings, calls, windows * windowMs);
}

/** Returns the calls of the worst case that `adversaryOf` found. It lasts at most three windows. */
function adversaryTraffic(settings: LabSettings): Traffic {
  const { against, startMs, windowMs, cost } = settings;
  const policy = definePolicy('lab', policyOptions(settings, against));
  const fromMs = Math.ceil(startMs / windowMs) * windowMs;
  const calls: Call[] = [];
  let wanted = 0;
  for (const { afterMs, admitted } of adversaryOf(policy).schedule) {
    wanted += Math.floor(admitted / cost);
    const call = { atMs: fromMs + afterMs, cost, key: SINGLE_CLIENT };
    while (calls.length < Math.min(wanted, MAX_CALLS)) calls.push(call);
  }
  const lengthMs = fromMs - startMs + 3 * windowMs;
  return { ...trafficOf(settings, calls, lengthMs), omitted: wanted - calls.length };
}

/** Returns the number of calls in each slot, or `most` if there are more. */
export function callsPerSlot({ calls, startMs, endMs }: Traffic, most: number): readonly number[] {
  const slots = new Array<number>(SLOTS).fill(0);
  for (const { atMs } of calls) {
    const slot = Math.floor(((atMs - startMs) / (endMs - startMs)) * SLOTS);
    if (slot >= 0 && slot < SLOTS) slots[slot] = Math.min(most, slots[slot] + 1);
  }
  return slots;
}
