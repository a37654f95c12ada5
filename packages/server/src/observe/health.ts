/**
 * `/healthz` responds with 200 if the process is alive. `/readyz` responds with 200 if the store
 * has decided a probe within the last second. Both are open to every client, so the result of a
 * probe is cached.
 */
import { monotonicMs } from '../clock.ts';
import { problemText } from '../config/model.ts';
import type { Configuration } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import type { AccessControl } from '../http/access.ts';
import { badRequest, type RequestContext } from '../http/request-context.ts';
import type { Router } from '../http/router.ts';

/** Time for which the result of a probe is cached. */
const PROBE_MS = 1000;

export type BreakerState = 'closed' | 'open' | 'probing';

export class Health {
  readonly #decisionService: DecisionService;
  #probed: Promise<boolean> | undefined = undefined;
  #probedAtMs = 0;
  #latencyMs: number | undefined = undefined;
  /** Set when shutdown begins. */
  isDraining = false;

  constructor(decisionService: DecisionService) {
    this.#decisionService = decisionService;
  }

  /** Resolves to whether the store can decide. Caches the result for `maxAgeMs` (default 1 s). */
  isStoreUp(maxAgeMs = PROBE_MS): Promise<boolean> {
    const nowMs = monotonicMs();
    if (this.#probed === undefined || nowMs - this.#probedAtMs >= maxAgeMs) {
      this.#probedAtMs = nowMs;
      this.#probed = this.#probe(nowMs);
    }
    return this.#probed;
  }

  async #probe(startMs: number): Promise<boolean> {
    const isUp = await this.#decisionService.probe();
    this.#latencyMs = isUp ? monotonicMs() - startMs : undefined;
    return isUp;
  }

  /** Duration of the last probe; undefined if it failed. */
  get latencyMs(): number | undefined {
    return this.#latencyMs;
  }

  /** State of the circuit breaker; undefined for a store in this process. */
  get breaker(): BreakerState | undefined {
    return (this.#decisionService.store as { breaker?: BreakerState }).breaker;
  }
}

export interface HealthParts {
  readonly health: Health;
  readonly configuration: Configuration;
  readonly access: AccessControl;
}

/**
 * Responds with 503 if traffic should go to other instances. With `?store=optional`, an instance is
 * ready even if the store is unavailable. Otherwise an outage of a shared store would make all
 * instances unready.
 */
async function sendReadiness(parts: HealthParts, context: RequestContext): Promise<void> {
  const { health, configuration, access } = parts;
  const isOptional = isStoreOptional(context);
  const isUp = await health.isStoreUp();
  const isReady = !health.isDraining && (isUp || isOptional);
  const { problems } = configuration;
  // Problems contain file paths of this machine, so only admins receive them.
  const areProblemsShown = problems.length > 0 && (await access.isAdmin(context));
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
  context.send(isReady ? 200 : 503, body, { 'cache-control': 'no-store' });
}

function isStoreOptional(context: RequestContext): boolean {
  if (context.search === '') return false;
  context.checkQuery('store');
  const given = context.query.get('store') ?? '';
  if (given === 'optional') return true;
  throw badRequest('ERR_INVALID_OPTION', 'Expected `store=optional` or no query');
}

export function healthRoutes(router: Router, parts: HealthParts): void {
  router.add('GET', '/healthz', 'open', (context) => context.send(200, { alive: true }));
  router.add('GET', '/readyz', 'open', (context) => sendReadiness(parts, context));
}
