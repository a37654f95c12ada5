/**
 * Traffic with a shape: the same for the same options, on any machine, and made one request at a
 * time, so that any number of them takes no more memory than one.
 */
import type { Entry } from '../entry.ts';
import { MAX_CLIENTS } from './clients.ts';
import { momentsOf } from './profile.ts';
import { Random } from './random.ts';
import { type Act, type Scope, SHAPE_NAMES, SHAPES, type Shape, type ShapeName } from './shapes.ts';

export interface TrafficOptions {
  readonly shape: ShapeName;
  /** Default 1. */
  readonly seed?: number | undefined;
  /** How many there are, exactly. Default 10,000. */
  readonly requests?: number | undefined;
  /** How many ordinary clients there are; whoever the shape is about comes on top. Default 100. */
  readonly clients?: number | undefined;
  /** Default 10 minutes, of `diurnal` a day. */
  readonly durationMs?: number | undefined;
  /** Ms since the epoch. Default the first of January 2026. */
  readonly startMs?: number | undefined;
  /** The windows whose boundaries `boundary` is about. Default a minute. */
  readonly windowMs?: number | undefined;
}

/** What cannot be generated, and why. */
export class GenerateError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'GenerateError';
  }
}

export const DEFAULT_REQUESTS = 10_000;
const DEFAULT_START_MS = 1_767_225_600_000;
const DEFAULT_CLIENTS = 100;
const DEFAULT_WINDOW_MS = 60_000;
const DEFAULT_SEED = 1;
/** Enough for a century, and few enough that times with their fractions stay exact. */
const MAX_MS = 36_525 * 86_400_000;

/** Each purpose has numbers of its own, so that one more client does not move all times. */
const STREAM = { times: 1, mixture: 2, ordinary: 3, special: 4 };

const HOST = 'shop.example';

/** A request as a log has it, and what is needed to send it. */
export class GeneratedRequest implements Entry {
  readonly host = HOST;

  constructor(
    readonly timeMs: number,
    private readonly act: Act,
  ) {}

  get client(): string {
    return this.act.client;
  }

  get method(): string {
    return this.act.method;
  }

  get path(): string {
    return this.act.path;
  }

  get search(): string {
    return this.act.search;
  }

  get status(): number {
    return this.act.status;
  }

  get bytes(): number {
    return this.act.bytes;
  }

  get user(): string {
    return this.act.user;
  }

  get agent(): string {
    return this.act.agent;
  }

  /** What follows the origin in a URL. */
  get target(): string {
    return this.search === '' ? this.path : `${this.path}?${this.search}`;
  }

  field(name: string): string | undefined {
    return name === 'user-agent' ? this.agent : undefined;
  }
}

function integer(name: string, value: number, least: number, most: number): number {
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw new GenerateError(
    `Expected \`${name}\` to be an integer from ${least} to ${most}, got \`${value}\``,
  );
}

interface Checked extends Scope {
  readonly shape: Shape;
  readonly seed: number;
  readonly requests: number;
}

function checked(options: TrafficOptions): Checked {
  const { shape: name } = options;
  if (!SHAPE_NAMES.includes(name)) {
    const known = SHAPE_NAMES.join(', ');
    throw new GenerateError(`Expected \`shape\` to be one of ${known}, got \`${name}\``);
  }
  const shape: Shape = SHAPES[name];
  const most = Number.MAX_SAFE_INTEGER;
  const { startMs = DEFAULT_START_MS, durationMs = shape.durationMs } = options;
  const { windowMs = DEFAULT_WINDOW_MS, seed = DEFAULT_SEED } = options;
  const { requests = DEFAULT_REQUESTS, clients = DEFAULT_CLIENTS } = options;
  return {
    shape,
    seed: integer('seed', seed, 0, most),
    requests: integer('requests', requests, 0, most),
    clients: integer('clients', clients, 1, MAX_CLIENTS),
    startMs: integer('startMs', startMs, 0, MAX_MS * 2),
    durationMs: integer('durationMs', durationMs, 1, MAX_MS),
    windowMs: integer('windowMs', windowMs, 1, MAX_MS),
  };
}

/** All that traffic is made from, with what is usual where nothing was said. */
export type TrafficSettings = {
  readonly [Name in keyof TrafficOptions]-?: Exclude<TrafficOptions[Name], undefined>;
};

/** What traffic of these options is made from. Throws a `GenerateError` for what cannot be. */
export function trafficSettings(options: TrafficOptions): TrafficSettings {
  return { ...checked(options), shape: options.shape };
}

/** Throws a `GenerateError` at once, not with the first request. */
export function generateTraffic(options: TrafficOptions): Generator<GeneratedRequest> {
  const scope = checked(options);
  const pieces = scope.shape.pieces(scope);
  if (pieces.length === 0) {
    throw new GenerateError(
      `Expected \`durationMs\` to hold a boundary of windows of ${scope.windowMs} ms, such as ` +
        `${2 * scope.windowMs}, got \`${scope.durationMs}\``,
    );
  }
  const { shape, seed, startMs, requests } = scope;
  const random = (stream: keyof typeof STREAM): Random => new Random(seed, STREAM[stream]);
  const mixture = random('mixture');
  const ordinary = shape.ordinary(scope, random('ordinary'));
  const special = shape.special?.(scope, random('special')) ?? ordinary;
  return (function* () {
    for (const { timeMs, piece } of momentsOf(pieces, startMs, requests, random('times'))) {
      const isSpecial = piece.special > 0 && mixture.fraction() < piece.special;
      yield new GeneratedRequest(timeMs, isSpecial ? special(timeMs) : ordinary());
    }
  })();
}
