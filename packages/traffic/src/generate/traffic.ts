/**
 * Generates traffic of a given shape, one request at a time, in constant memory. The same options
 * generate the same traffic on any machine.
 */
import type { Entry } from '../entry.ts';
import { MAX_CLIENTS } from './clients.ts';
import { momentsOf } from './profile.ts';
import { Random } from './random.ts';
import {
  type ClientRequest,
  SHAPE_NAMES,
  SHAPES,
  type Shape,
  type ShapeName,
  type ShapeOptions,
} from './shapes.ts';

export interface TrafficOptions {
  readonly shape: ShapeName;
  /** Random seed. Default 1. */
  readonly seed?: number | undefined;
  /** Exact number of requests. Default 10,000. */
  readonly requests?: number | undefined;
  /** Number of ordinary clients, without the special clients of the shape. Default 100. */
  readonly clients?: number | undefined;
  /** Duration. Default 10 minutes, for `diurnal` one day. */
  readonly durationMs?: number | undefined;
  /** Start in ms since the epoch. Default 2026-01-01. */
  readonly startMs?: number | undefined;
  /** Window length of the `boundary` shape. Default one minute. */
  readonly windowMs?: number | undefined;
}

/** Thrown for invalid options. */
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
/** Maximum duration: one century. Longer times would lose the fractions of their milliseconds. */
const MAX_MS = 36_525 * 86_400_000;

/**
 * The random stream of each purpose. For example, one more random number for a client does not
 * change the times of the requests.
 */
const STREAM = { times: 1, mixture: 2, ordinary: 3, special: 4 };

const HOST = 'shop.example';

/** A generated request. Callers write it to a log or send it to a server. */
export class GeneratedRequest implements Entry {
  readonly host = HOST;

  constructor(
    readonly timeMs: number,
    private readonly request: ClientRequest,
  ) {}

  get client(): string {
    return this.request.client;
  }

  get method(): string {
    return this.request.method;
  }

  get path(): string {
    return this.request.path;
  }

  get search(): string {
    return this.request.search;
  }

  get status(): number {
    return this.request.status;
  }

  get bytes(): number {
    return this.request.bytes;
  }

  get user(): string {
    return this.request.user;
  }

  get agent(): string {
    return this.request.agent;
  }

  /** Path and query. */
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

interface ValidatedOptions extends ShapeOptions {
  readonly shape: Shape;
  readonly seed: number;
  readonly requests: number;
}

function validated(options: TrafficOptions): ValidatedOptions {
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

/** The options with defaults applied. */
export type TrafficSettings = {
  readonly [Name in keyof TrafficOptions]-?: Exclude<TrafficOptions[Name], undefined>;
};

/** Returns the options with defaults. Throws a `GenerateError` if they are invalid. */
export function trafficSettings(options: TrafficOptions): TrafficSettings {
  return { ...validated(options), shape: options.shape };
}

/**
 * Returns a generator of the requests. Throws a `GenerateError` here if the options are invalid,
 * not when the first request is generated.
 */
export function generateTraffic(options: TrafficOptions): Generator<GeneratedRequest> {
  const scope = validated(options);
  const pieces = scope.shape.pieces(scope);
  if (pieces.length === 0) {
    throw new GenerateError(
      `Expected \`durationMs\` to contain a boundary of ${scope.windowMs} ms windows, such as ` +
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
