/**
 * Prometheus metrics. Decisions and requests are counted in plain fields, which are converted when
 * `/metrics` is read. Labels are policies, routes and outcomes. Keys are never labels, because the
 * number of keys is unbounded, and keys may be personal data.
 */
import { AggregatorRegistry, Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { systemClock } from 'sluice';
import type { Configuration } from '../configuration.ts';
import type { DecisionListener, DecisionService, FailureListener } from '../decision-service.ts';
import type { Router } from '../http/router.ts';
import type { TrafficWatcher } from '../http/server.ts';
import type { OpenStore } from '../stores/index.ts';
import { withTimeout } from '../with-timeout.ts';
import type { Health } from './health.ts';
import { Observations, registerHistogram } from './histogram.ts';
import { droppedLogLines } from './log-output.ts';
import { DECISION_OUTCOMES, DecisionCounters } from './policy-counters.ts';
import { version } from './version.ts';

export interface MetricsParts {
  readonly decisionService: DecisionService;
  readonly configuration: Configuration;
  readonly store: OpenStore;
  readonly health: Health;
}

/** Current connections and requests. */
export interface Traffic {
  readonly connections: number;
  readonly inFlight: number;
}

/** Protocols of the routes that return decisions, by route. */
const PROTOCOLS: Readonly<Record<string, Protocol>> = {
  '/v1/check': 'http',
  '/v1/forward-auth': 'forward_auth',
  '/v1/forward-auth/ext-authz/*': 'forward_auth',
  '/json': 'json',
};

/** All HTTP statuses are below this number. */
const STATUSES = 600;

/** Counts of the responses of a route. Typed arrays, because every request updates them. */
interface RouteTraffic {
  /** Number of responses by status. */
  readonly statuses: Float64Array;
  /** Undefined for routes that return no decisions. */
  readonly durations: Observations | undefined;
}

export type Protocol = 'http' | 'forward_auth' | 'json' | 'grpc';

const INFO_MS = 500;

export class Metrics implements TrafficWatcher {
  readonly #registry = new Registry();
  readonly #parts: MetricsParts;
  readonly counters: DecisionCounters;
  /** Durations of decisions by protocol. */
  readonly durations = new Map<Protocol, Observations>();
  readonly #requests = new Map<string, RouteTraffic>();
  #reloadedMs = systemClock.now();
  #evicted: number | undefined = undefined;
  #traffic: Traffic = { connections: 0, inFlight: 0 };

  constructor(parts: MetricsParts) {
    this.#parts = parts;
    this.counters = new DecisionCounters();
    this.#registerDecisions();
    this.#registerStore();
    this.#registerConfig();
    this.#registerTraffic();
    processMetrics();
    parts.configuration.onReload(({ ok, isUnchanged }) => {
      if (ok && !isUnchanged) this.#reloadedMs = systemClock.now();
    });
  }

  /** Listener for `DecisionService.watch`. */
  get watch(): DecisionListener {
    return this.counters.watch;
  }

  get onFailure(): FailureListener {
    return this.counters.onFailure;
  }

  recordResponse(route: string, status: number, tookMs: number): void {
    const traffic = this.#requests.get(route) ?? this.#addRoute(route);
    traffic.statuses[status]++;
    traffic.durations?.add(tookMs / 1000);
  }

  #addRoute(route: string): RouteTraffic {
    const protocol = PROTOCOLS[route];
    const durations = protocol === undefined ? undefined : this.#durationsOf(protocol);
    const traffic = { statuses: new Float64Array(STATUSES), durations };
    this.#requests.set(route, traffic);
    return traffic;
  }

  /** Records the duration of a decision. */
  recordDecision(protocol: Protocol, tookMs: number): void {
    this.#durationsOf(protocol).add(tookMs / 1000);
  }

  #durationsOf(protocol: Protocol): Observations {
    let durations = this.durations.get(protocol);
    if (durations === undefined) {
      durations = new Observations();
      this.durations.set(protocol, durations);
    }
    return durations;
  }

  /** Sets the server whose connections and requests are reported. */
  setTraffic(traffic: Traffic): void {
    this.#traffic = traffic;
  }

  #registerDecisions(): void {
    const { counters } = this;
    const { decisionService } = this.#parts;
    new Counter({
      name: 'sluice_decisions_total',
      help: 'Limits decided, by policy and outcome.',
      labelNames: ['policy', 'outcome'],
      registers: [this.#registry],
      collect() {
        this.reset();
        // Policies without decisions are exported as 0, so that `rate()` includes their first
        // increase.
        for (const { config } of decisionService.policies.list()) {
          const ofPolicy = counters.of(config.name);
          if (ofPolicy !== counters.get(config.name)) continue;
          const isShadow = decisionService.policies.isShadow(config.name);
          const usual = isShadow ? DECISION_OUTCOMES.slice(3) : DECISION_OUTCOMES.slice(0, 2);
          for (const outcome of usual) this.inc({ policy: config.name, outcome }, 0);
        }
        for (const [policy, ofPolicy] of counters.entries()) {
          for (const outcome of DECISION_OUTCOMES) {
            if (ofPolicy[outcome] > 0) this.inc({ policy, outcome }, ofPolicy[outcome]);
          }
        }
      },
    });
    new Counter({
      name: 'sluice_blocked_total',
      help: 'Limits that denied a blocked key, including the denial that started the block.',
      labelNames: ['policy'],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { policy } of decisionService.policies.list()) {
          if (policy.block) this.inc({ policy: counters.of(policy.name).label }, 0);
        }
        for (const [policy, { blocked }] of counters.entries()) {
          if (blocked > 0) this.inc({ policy }, blocked);
        }
      },
    });
    new Counter({
      name: 'sluice_degraded_total',
      help: 'Checks that the store could not decide, by reason and fallback action.',
      labelNames: ['policy', 'reason', 'action'],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const [policy, { degraded }] of counters.entries()) {
          for (const [id, count] of degraded) this.inc({ policy, ...JSON.parse(id) }, count);
        }
      },
    });
    registerHistogram(this.#registry, {
      name: 'sluice_decision_duration_seconds',
      help: 'Time from a request for a decision to its response, by protocol.',
      label: 'protocol',
      series: this.durations,
    });
  }

  #registerStore(): void {
    const { health, store } = this.#parts;
    const registers = [this.#registry];
    new Gauge({
      name: 'sluice_store_up',
      help: '1 if the store decided the last probe, else 0.',
      registers,
      aggregator: 'min',
      async collect() {
        this.set((await health.isStoreUp()) ? 1 : 0);
      },
    });
    if (health.breaker !== undefined) {
      new Gauge({
        name: 'sluice_store_breaker',
        help: 'State of the circuit breaker of the store: 1 for the current state, else 0.',
        labelNames: ['state'],
        registers,
        aggregator: 'max',
        collect() {
          for (const state of ['closed', 'open', 'probing'] as const) {
            this.set({ state }, health.breaker === state ? 1 : 0);
          }
        },
      });
    }
    if (store.store.size !== undefined) {
      new Gauge({
        name: 'sluice_keys',
        help: 'Keys in the embedded store.',
        registers,
        aggregator: 'max',
        collect() {
          this.set(store.store.size ?? 0);
        },
      });
    }
    if (store.store.size !== undefined) {
      new Gauge({
        name: 'sluice_guaranteed_keys',
        help: 'Number of keys per policy that the embedded store never evicts.',
        registers,
        aggregator: 'max',
        collect() {
          const { guaranteedKeys } = store.store;
          if (guaranteedKeys === undefined) this.remove();
          else this.set(guaranteedKeys);
        },
      });
    }
    const evicted = (): Promise<number | undefined> => this.#readEvicted();
    new Counter({
      name: 'sluice_evicted_keys_total',
      help: 'Unexpired keys that the store evicted.',
      registers,
      aggregator: 'max',
      async collect() {
        const count = await evicted();
        this.reset();
        if (count !== undefined) this.inc(count);
      },
    });
  }

  /** Resolves to the number of evictions; the last known number if the server does not reply. */
  async #readEvicted(): Promise<number | undefined> {
    const { store } = this.#parts;
    if (store.store.evicted !== undefined) return store.store.evicted;
    const text = await withTimeout(INFO_MS, store.info?.('stats'));
    const counts = [...(text ?? '').matchAll(/^evicted_keys:(\d+)/gm)].map(([, count]) => +count);
    if (counts.length > 0) this.#evicted = counts.reduce((sum, count) => sum + count);
    return this.#evicted;
  }

  #registerConfig(): void {
    const { configuration } = this.#parts;
    const { reloads } = configuration;
    const registers = [this.#registry];
    const reloadedMs = (): number => this.#reloadedMs;
    new Counter({
      name: 'sluice_config_reloads_total',
      help: 'Reloads of changed configuration files, by result.',
      labelNames: ['result'],
      registers,
      // Every process counts each reload, so the counts must not be summed.
      aggregator: 'max',
      collect() {
        this.reset();
        for (const [result, count] of Object.entries(reloads)) this.inc({ result }, count);
      },
    });
    new Gauge({
      name: 'sluice_config_last_reload_success_timestamp_seconds',
      help: 'Time of the last successful load of the configuration.',
      registers,
      aggregator: 'min',
      collect() {
        this.set(reloadedMs() / 1000);
      },
    });
    new Gauge({
      name: 'sluice_config_bad',
      help: '1 if the files are invalid and the previous configuration is in effect, else 0.',
      registers,
      aggregator: 'max',
      collect() {
        this.set(configuration.problems.length > 0 ? 1 : 0);
      },
    });
  }

  #registerTraffic(): void {
    const requests = this.#requests;
    const traffic = (): Traffic => this.#traffic;
    const registers = [this.#registry];
    new Counter({
      name: 'sluice_http_requests_total',
      help: 'HTTP responses by route and status; 499 if the client disconnected first.',
      labelNames: ['route', 'status'],
      registers,
      collect() {
        this.reset();
        for (const [route, { statuses }] of requests) {
          for (const [status, count] of statuses.entries()) {
            if (count > 0) this.inc({ route, status }, count);
          }
        }
      },
    });
    new Gauge({
      name: 'sluice_http_connections',
      help: 'Open HTTP connections.',
      registers,
      collect() {
        this.set(traffic().connections);
      },
    });
    new Gauge({
      name: 'sluice_http_requests_in_flight',
      help: 'HTTP requests without a response yet.',
      registers,
      collect() {
        this.set(traffic().inFlight);
      },
    });
    new Counter({
      name: 'sluice_log_lines_dropped_total',
      help: 'Log lines dropped because standard output was full or failed.',
      registers,
      collect() {
        this.reset();
        this.inc(droppedLogLines());
      },
    });
    new Gauge({
      name: 'sluice_build_info',
      help: 'Always 1; the versions are in the labels.',
      labelNames: ['version', 'node'],
      registers,
      aggregator: 'first',
    }).set({ version, node: process.version }, 1);
  }

  /** Resolves to the metrics of this process in the Prometheus text format. */
  async text(): Promise<string> {
    const texts = [this.#registry, processMetrics()].map((each) => each.metrics());
    return (await Promise.all(texts)).join('\n');
  }

  /** Resolves to the metrics of this process as data, for `jointMetricsText`. */
  async data(): Promise<MetricsData> {
    const all = [this.#registry, processMetrics()].map((each) => each.getMetricsAsJSON());
    return (await Promise.all(all)).flat();
  }
}

/** Plain data, serializable as JSON. */
export type MetricsData = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** Resolves to the merged metrics of several processes in the Prometheus text format. */
export const jointMetricsText = (parts: readonly MetricsData[]): Promise<string> =>
  AggregatorRegistry.aggregate([...parts]).metrics();

let processRegistry: Registry | undefined;

/**
 * Returns metrics of the process, such as memory and CPU time. All services in the process share
 * them.
 */
function processMetrics(): Registry {
  if (processRegistry === undefined) {
    processRegistry = new Registry();
    collectDefaultMetrics({ register: processRegistry });
  }
  return processRegistry;
}

/** Prevents browsers from running the text as a script of a page of another site. */
const NO_SCRIPT = { 'x-content-type-options': 'nosniff' };

/** Adds the route `/metrics`. `text` resolves to the metrics of all processes. */
export function metricsRoutes(router: Router, text: () => Promise<string>): void {
  router.add('GET', '/metrics', 'admin', async (context) => {
    context.sendText(200, await text(), NO_SCRIPT, Registry.PROMETHEUS_CONTENT_TYPE);
  });
}
