/**
 * The traffic shapes. A shape has a rate over time and a generator of requests. Some shapes also
 * have special clients, such as an abuser.
 */
import {
  type Client,
  clientOf,
  ordinaryIpv4,
  ordinaryIpv6,
  randomClientNumber,
  randomIpv6,
  specialIpv4,
} from './clients.ts';
import type { Piece } from './profile.ts';
import type { Random } from './random.ts';
import { type SiteRequest, siteRequest } from './site.ts';

/** Validated options of the traffic. */
export interface ShapeOptions {
  readonly startMs: number;
  readonly durationMs: number;
  readonly windowMs: number;
  readonly clients: number;
}

/** A request and its client. */
export type ClientRequest = Client & SiteRequest;

export interface Shape {
  readonly summary: string;
  /** Default duration of the traffic. */
  readonly durationMs: number;
  pieces(scope: ShapeOptions): readonly Piece[];
  /** Returns a generator of requests from ordinary clients. */
  ordinary(scope: ShapeOptions, random: Random): () => ClientRequest;
  /** Returns a generator of requests from the special clients. */
  special?(scope: ShapeOptions, random: Random): (timeMs: number) => ClientRequest;
}

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const TEN_MINUTES_MS = 10 * MINUTE_MS;

const constantRate = ({ durationMs }: ShapeOptions, special = 0): readonly Piece[] => [
  { lengthMs: durationMs, weight: 1, special },
];

const ordinaryClients =
  (address: (number: number) => string) =>
  ({ clients }: ShapeOptions, random: Random) =>
  (): ClientRequest => {
    const number = randomClientNumber(clients, random);
    return { ...clientOf(number, address(number)), ...siteRequest(random) };
  };

const steady: Shape = {
  summary: 'constant rate',
  durationMs: TEN_MINUTES_MS,
  pieces: (scope) => constantRate(scope),
  ordinary: ordinaryClients(ordinaryIpv4),
};

/** A burst before or after a boundary takes 1/60 of a window. */
const BURSTS_IN_WINDOW = 60;

/**
 * Returns pieces with requests only around window boundaries, as many just before as just after.
 */
function boundaryPieces({ startMs, durationMs, windowMs }: ShapeOptions): readonly Piece[] {
  const endMs = startMs + durationMs;
  const burstMs = Math.max(1, Math.floor(windowMs / BURSTS_IN_WINDOW));
  const pieces: Piece[] = [];
  let atMs = startMs;
  let boundaryMs = Math.ceil((startMs + burstMs) / windowMs) * windowMs;
  for (; boundaryMs + burstMs <= endMs; boundaryMs += windowMs) {
    const burst = { lengthMs: burstMs, weight: 1, special: 0 };
    const silence = { lengthMs: boundaryMs - burstMs - atMs, weight: 0, special: 0 };
    pieces.push(silence, burst, burst);
    atMs = boundaryMs + burstMs;
  }
  return pieces;
}

const boundary: Shape = {
  summary: 'a burst of every client on each side of window boundaries',
  durationMs: TEN_MINUTES_MS,
  pieces: boundaryPieces,
  ordinary: ({ clients }, random) => {
    let turn = 0;
    return () => {
      const number = turn++ % clients;
      return { ...clientOf(number, ordinaryIpv4(number)), ...siteRequest(random) };
    };
  },
};

const PEAK_PART = 15 / 24;
const NIGHT_WEIGHT = 0.15;
const QUARTER_HOUR_MS = 15 * MINUTE_MS;
const MAX_PIECES = 100_000;

/**
 * Returns the weight at a time of day, where `part` is the elapsed part of the day. The weight is 1
 * at the peak hour and falls smoothly to `NIGHT_WEIGHT` twelve hours away from it.
 */
function dayWeight(part: number): number {
  const away = Math.abs(part - PEAK_PART);
  const far = 2 * Math.min(away, 1 - away);
  return 1 - (1 - NIGHT_WEIGHT) * far * far * (3 - 2 * far);
}

/**
 * Returns pieces with the rates of whole days. If the duration is shorter than a day, one day is
 * compressed into it.
 */
function diurnalPieces({ startMs, durationMs }: ShapeOptions): readonly Piece[] {
  const dayMs = Math.min(DAY_MS, durationMs);
  const offsetMs = durationMs < DAY_MS ? 0 : startMs % DAY_MS;
  const wantedMs = Math.min(QUARTER_HOUR_MS, dayMs / 96);
  const count = Math.min(MAX_PIECES, Math.ceil(durationMs / wantedMs));
  const lengthMs = durationMs / count;
  return Array.from({ length: count }, (_, at) => {
    const middleMs = offsetMs + (at + 0.5) * lengthMs;
    return { lengthMs, weight: dayWeight((middleMs % dayMs) / dayMs), special: 0 };
  });
}

const diurnal: Shape = {
  summary: 'peak in the afternoon, low at night',
  durationMs: DAY_MS,
  pieces: diurnalPieces,
  ordinary: ordinaryClients(ordinaryIpv4),
};

const HUNDREDTHS = 100;
const CROWD_START = 40;
const CROWD_RISE = 2;
const CROWD_PEAK = 10;
const CROWD_DECAY = 0.87;
const REQUESTS_PER_NEW_CLIENT = 3;

/** Returns the additional weight of the crowd in each hundredth of the duration. */
function crowdWeights(): readonly number[] {
  const most = CROWD_PEAK - 1;
  // Multiply step by step, because the last bit of `Math.pow` may differ between machines.
  let falling = most;
  return Array.from({ length: HUNDREDTHS }, (_, at) => {
    const since = at - CROWD_START;
    if (since < 0) return 0;
    if (since < CROWD_RISE) return (most * (since + 1)) / (CROWD_RISE + 1);
    const weight = falling;
    falling *= CROWD_DECAY;
    return weight;
  });
}

const flashCrowd: Shape = {
  summary: 'new clients for one page, at up to ten times the normal rate',
  durationMs: TEN_MINUTES_MS,
  pieces: ({ durationMs }) =>
    crowdWeights().map((extra) => {
      const special = extra / (1 + extra);
      return { lengthMs: durationMs / HUNDREDTHS, weight: 1 + extra, special };
    }),
  ordinary: ordinaryClients(ordinaryIpv4),
  special: (_scope, random) => {
    let newRequests = 0;
    return () => {
      // Pick one of 8 new clients, so that their requests overlap.
      const number = Math.floor(newRequests++ / REQUESTS_PER_NEW_CLIENT) + random.below(8);
      const request = { method: 'GET', path: '/offers/launch', search: '', status: 200 };
      return { ...clientOf(number, specialIpv4(number)), user: '', ...request, bytes: 5120 };
    };
  },
};

const ABUSER_PART = 0.5;

const abuser: Shape = {
  summary: 'one client sends as much as all others together',
  durationMs: TEN_MINUTES_MS,
  pieces: (scope) => constantRate(scope, ABUSER_PART),
  ordinary: ordinaryClients(ordinaryIpv4),
  special: () => {
    const person = { client: specialIpv4(0), user: '', agent: 'python-requests/2.32.4' };
    const request = { method: 'POST', path: '/login', search: '', status: 401, bytes: 118 };
    return () => ({ ...person, ...request });
  },
};

const ROTATING_PART = 0.3;
const NETWORKS = 16;

const ipv6Rotation: Shape = {
  summary: 'one client with a new address per request, in one then 16 /64s',
  durationMs: TEN_MINUTES_MS,
  pieces: (scope) => constantRate(scope, ROTATING_PART),
  ordinary: ordinaryClients(ordinaryIpv6),
  special: ({ startMs, durationMs }, random) => {
    const request = {
      method: 'GET',
      path: '/api/search',
      search: 'q=%25',
      status: 200,
      bytes: 8192,
    };
    return (timeMs) => {
      const network = timeMs < startMs + durationMs / 2 ? 0 : random.below(NETWORKS);
      return { client: randomIpv6(network, random), user: '', agent: 'curl/8.14.1', ...request };
    };
  },
};

export const SHAPES = {
  steady,
  boundary,
  diurnal,
  'flash-crowd': flashCrowd,
  abuser,
  'ipv6-rotation': ipv6Rotation,
} as const satisfies Record<string, Shape>;

export type ShapeName = keyof typeof SHAPES;
export const SHAPE_NAMES = Object.keys(SHAPES) as readonly ShapeName[];
