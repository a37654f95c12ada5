/**
 * `/healthz` says that the process is alive, `/readyz` that it can decide: its store has really
 * decided something within the last second. Everybody may ask, so asking often costs the store
 * nothing more.
 */
import { monotonicMs } from '../clock.ts';
import { problemText } from '../config/model.ts';
import type { Configuration } from '../configuration.ts';
import type { DecisionService } from '../decision-service.ts';
import type { AccessControl } from '../http/access.ts';
import { badRequest, type RequestContext } from '../http/request-context.ts';
import type { Router } from '../http/router.ts';

/** How long the answer of a probe is good for. */
const PROBE_MS = 1000;

export type BreakerState = 'closed' | 'open' | 'probing';

export class Health {
  readonly #decisionService: DecisionService;
  #probed: Promise<boolean> | undefined = undefined;
  #probedAtMs = 0;
  #latencyMs: number | undefined = undefined;
  /** Set when the service has been told to stop. */
  isDraining = false;

  constructor(decisionService: DecisionService) {
    this.#decisionService = decisionService;
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
    const isUp = await this.#decisionService.probe();
    this.#latencyMs = isUp ? monotonicMs() - startMs : undefined;
    return isUp;
  }

  /** How long the store took when it was last probed; undefined if it did not decide then. */
  get latencyMs(): number | undefined {
    return this.#latencyMs;
  }

  /** Whether the store is asked at all; undefined for one that cannot be away. */
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
 * Not ready means that others had better serve. Where a store that is away is no reason for that,
 * because all share it and each can do without for a while, ask `/readyz?store=optional`.
 */
async function answerReady(parts: HealthParts, context: RequestContext): Promise<void> {
  const { health, configuration, access } = parts;
  const isOptional = isStoreOptional(context);
  const isUp = await health.isStoreUp();
  const isReady = !health.isDraining && (isUp || isOptional);
  const { problems } = configuration;
  // They name files of this machine.
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
  throw badRequest('ERR_INVALID_OPTION', 'Expected `store` to be optional, or no query at all');
}

export function healthRoutes(router: Router, parts: HealthParts): void {
  router.add('GET', '/healthz', 'open', (context) => context.send(200, { alive: true }));
  router.add('GET', '/readyz', 'open', (context) => answerReady(parts, context));
}
