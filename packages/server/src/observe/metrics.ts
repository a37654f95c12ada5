/**
 * What happens, in numbers, for Prometheus. Decisions and requests are counted in plain fields and
 * become metrics only when somebody asks. Labels are policies, routes and outcomes, never keys: of
 * those there is no end, and they are nobody else's business.
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

/** What is open at the moment. */
export interface Traffic {
  readonly connections: number;
  readonly inFlight: number;
}

/** The routes that decide, and what their protocols are called. */
const PROTOCOLS: Readonly<Record<string, Protocol>> = {
  '/v1/check': 'http',
  '/v1/forward-auth': 'forward_auth',
  '/v1/forward-auth/ext-authz/*': 'forward_auth',
  '/json': 'json',
};

/** A status is below it. */
const STATUSES = 600;

/** What was answered at a route, as numbers at fixed places, since it is counted each time. */
interface RouteTraffic {
  /** How often, by status. */
  readonly statuses: Float64Array;
  /** How long it took, where something is decided. */
  readonly durations: Observations | undefined;
}

export type Protocol = 'http' | 'forward_auth' | 'json' | 'grpc';

const INFO_MS = 500;

export class Metrics implements TrafficWatcher {
  readonly #registry = new Registry();
  readonly #parts: MetricsParts;
  /** What became of limits. */
  readonly counters: DecisionCounters;
  /** How long those waited who asked for a decision. */
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
    ofProcess();
    parts.configuration.onReload(({ ok, isUnchanged }) => {
      if (ok && !isUnchanged) this.#reloadedMs = systemClock.now();
    });
  }

  /** For `desk.watch`. */
  get watch(): DecisionListener {
    return this.counters.watch;
  }

  get onFailure(): FailureListener {
    return this.counters.onFailure;
  }

  answered(route: string, status: number, tookMs: number): void {
    const traffic = this.#requests.get(route) ?? this.#firstOf(route);
    traffic.statuses[status]++;
    traffic.durations?.add(tookMs / 1000);
  }

  #firstOf(route: string): RouteTraffic {
    const protocol = PROTOCOLS[route];
    const durations = protocol === undefined ? undefined : this.#durationsOf(protocol);
    const traffic = { statuses: new Float64Array(STATUSES), durations };
    this.#requests.set(route, traffic);
    return traffic;
  }

  /** How long somebody who asked for a decision waited for it. */
  decided(protocol: Protocol, tookMs: number): void {
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

  /** Has connections read from a server from now on. */
  readTraffic(traffic: Traffic): void {
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
        // Those that nothing has happened to yet are there as well, so that a rate has a beginning.
        for (const { config } of decisionService.policies.list()) {
          const tally = counters.of(config.name);
          if (tally !== counters.get(config.name)) continue;
          const isShadow = decisionService.policies.isShadow(config.name);
          const usual = isShadow ? DECISION_OUTCOMES.slice(3) : DECISION_OUTCOMES.slice(0, 2);
          for (const outcome of usual) this.inc({ policy: config.name, outcome }, 0);
        }
        for (const [policy, tally] of counters.entries()) {
          for (const outcome of DECISION_OUTCOMES) {
            if (tally[outcome] > 0) this.inc({ policy, outcome }, tally[outcome]);
          }
        }
      },
    });
    new Counter({
      name: 'sluice_degraded_total',
      help: 'Checks that the store could not decide, by reason and by what was done instead.',
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
      help: 'Time from a request for a decision to its answer, by protocol.',
      label: 'protocol',
      series: this.durations,
    });
  }

  #registerStore(): void {
    const { health, store } = this.#parts;
    const registers = [this.#registry];
    new Gauge({
      name: 'sluice_store_up',
      help: 'Whether the store decided when it was last probed.',
      registers,
      aggregator: 'min',
      async collect() {
        this.set((await health.isStoreUp()) ? 1 : 0);
      },
    });
    if (health.breaker !== undefined) {
      new Gauge({
        name: 'sluice_store_breaker',
        help: 'Whether the store is asked: the state that the breaker is in is 1.',
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
        help: 'Keys held by the embedded store.',
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
        help: 'Keys of each policy that the embedded store never evicts.',
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
      help: 'Keys that the store evicted while they still counted.',
      registers,
      aggregator: 'max',
      async collect() {
        const count = await evicted();
        this.reset();
        if (count !== undefined) this.inc(count);
      },
    });
  }

  /** The last number that is known, if the server does not say. */
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
      help: 'How often changed configuration files were read again, by result.',
      labelNames: ['result'],
      registers,
      // Processes that serve together are told of the same reload.
      aggregator: 'max',
      collect() {
        this.reset();
        for (const [result, count] of Object.entries(reloads)) this.inc({ result }, count);
      },
    });
    new Gauge({
      name: 'sluice_config_last_reload_success_timestamp_seconds',
      help: 'When the configuration that counts was read.',
      registers,
      aggregator: 'min',
      collect() {
        this.set(reloadedMs() / 1000);
      },
    });
    new Gauge({
      name: 'sluice_config_bad',
      help: 'Whether the files are wrong and an older configuration counts.',
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
      help: 'HTTP requests answered, by route and status; 499 is a client that went away.',
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
      help: 'HTTP connections that are open.',
      registers,
      collect() {
        this.set(traffic().connections);
      },
    });
    new Gauge({
      name: 'sluice_http_requests_in_flight',
      help: 'HTTP requests that have come and are not answered yet.',
      registers,
      collect() {
        this.set(traffic().inFlight);
      },
    });
    new Counter({
      name: 'sluice_log_lines_dropped_total',
      help: 'Log lines that were not written because standard output was full or failed.',
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

  /** The text that Prometheus reads, about this process. */
  async text(): Promise<string> {
    const texts = [this.#registry, ofProcess()].map((each) => each.metrics());
    return (await Promise.all(texts)).join('\n');
  }

  /** What this process counted, to be put together with what others did. */
  async data(): Promise<MetricsData> {
    const all = [this.#registry, ofProcess()].map((each) => each.getMetricsAsJSON());
    return (await Promise.all(all)).flat();
  }
}

/** Plain data: it survives JSON. */
export type MetricsData = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/** The text that Prometheus reads, about several processes that serve as one. */
export const jointMetricsText = (parts: readonly MetricsData[]): Promise<string> =>
  AggregatorRegistry.aggregate([...parts]).metrics();

let processRegistry: Registry | undefined;

/** Memory, processor time and so on are the process's, however many services run in it. */
function ofProcess(): Registry {
  if (processRegistry === undefined) {
    processRegistry = new Registry();
    collectDefaultMetrics({ register: processRegistry });
  }
  return processRegistry;
}

/** `text` is that of the whole, where several processes serve. */
/** Browsers take plain text for a script where a page of another site says that it is one. */
const NO_SCRIPT = { 'x-content-type-options': 'nosniff' };

export function metricsRoutes(router: Router, text: () => Promise<string>): void {
  router.add('GET', '/metrics', 'admin', async (context) => {
    context.sendText(200, await text(), NO_SCRIPT, Registry.PROMETHEUS_CONTENT_TYPE);
  });
}
