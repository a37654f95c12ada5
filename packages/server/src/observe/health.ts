/**
 * `/healthz` says that the process is alive, `/readyz` that it can decide: its store has really
 * decided something within the last second. Everybody may ask, so asking often costs the store
 * nothing more.
 */
import { monotonicMs } from '../clock.ts';
import { problemText } from '../config/model.ts';
import type { Configuration } from '../configuration.ts';
import type { Desk } from '../desk.ts';
import type { AccessControl } from '../http/access.ts';
import { badRequest, type Exchange } from '../http/exchange.ts';
import type { Router } from '../http/router.ts';

/** How long the answer of a probe is good for. */
const PROBE_MS = 1000;

export type BreakerState = 'closed' | 'open' | 'probing';

export class Health {
  readonly #desk: Desk;
  #probed: Promise<boolean> | undefined = undefined;
  #probedAtMs = 0;
  #latencyMs: number | undefined = undefined;
  /** Set when the service has been told to stop. */
  isDraining = false;

  constructor(desk: Desk) {
    this.#desk = desk;
  }

  /** Whether the store decides. Asks it once a second at the most, or as often as is said. */
  isStoreUp(goodForMs = PROBE_MS): Promise<boolean> {
    const nowMs = monotonicMs();
    if (this.#probed === undefined || nowMs - this.#probedAtMs >= goodForMs) {
      this.#probedAtMs = nowMs;
      this.#probed = this.#probe(nowMs);
    }
    return this.#probed;
  }

  async #probe(startMs: number): Promise<boolean> {
    const isUp = await this.#desk.probe();
    this.#latencyMs = isUp ? monotonicMs() - startMs : undefined;
    return isUp;
  }

  /** How long the store took when it was last probed; undefined if it did not decide then. */
  get latencyMs(): number | undefined {
    return this.#latencyMs;
  }

  /** Whether the store is asked at all; undefined for one that cannot be away. */
  get breaker(): BreakerState | undefined {
    return (this.#desk.store as { breaker?: BreakerState }).breaker;
  }
}

export interface HealthParts {
  readonly health: Health;
  readonly configuration: Configuration;
  readonly access: AccessControl;
}

/**
 * Not ready means that others had better serve. Where a store that is away is no reason for that,
 * because all share it and each can do without for a while, ask `/readyz?store=optional`.
 */
async function answerReady(parts: HealthParts, exchange: Exchange): Promise<void> {
  const { health, configuration, access } = parts;
  const isOptional = isStoreOptional(exchange);
  const isUp = await health.isStoreUp();
  const isReady = !health.isDraining && (isUp || isOptional);
  const { problems } = configuration;
  // They name files of this machine.
  const areProblemsShown = problems.length > 0 && (await access.isAdmin(exchange));
  const { breaker } = health;
  const body = {
    ready: isReady,
    ...(health.isDraining && { draining: true }),
    store: { up: isUp, ...(breaker !== undefined && { breaker }) },
    config: {
      ok: problems.length === 0,
      ...(areProblemsShown && { problems: problems.map(problemText) }),
    },
  };
  exchange.send(isReady ? 200 : 503, body, { 'cache-control': 'no-store' });
}

function isStoreOptional(exchange: Exchange): boolean {
  if (exchange.search === '') return false;
  exchange.checkQuery('store');
  const given = exchange.query.get('store') ?? '';
  if (given === 'optional') return true;
  throw badRequest('ERR_INVALID_OPTION', 'Expected `store` to be optional, or no query at all');
}

export function healthRoutes(router: Router, parts: HealthParts): void {
  router.add('GET', '/healthz', 'open', (exchange) => exchange.send(200, { alive: true }));
  router.add('GET', '/readyz', 'open', (exchange) => answerReady(parts, exchange));
}
