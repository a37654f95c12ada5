/**
 * The gRPC health checking protocol. The status is NOT_SERVING while the store is unavailable, and
 * during shutdown.
 */
import { systemClock } from 'sluice';
import { type Call, STATUS } from './grpc-calls.ts';

const SERVING = { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } as const;
type Serving = (typeof SERVING)[keyof typeof SERVING];

interface HealthRequest {
  readonly service?: string;
}
const POLL_MS = 2000;
/** Maximum number of `Watch` calls, which stay open. */
export const MAX_WATCHERS = 1000;

export class HealthService {
  readonly #isHealthy: () => Promise<boolean>;
  readonly #services: ReadonlySet<string>;
  #isDraining = false;
  /** Open `Watch` calls, each with the status that was sent last. */
  readonly #watchers = new Map<Call, Serving>();
  #cancelPoll: (() => void) | undefined = undefined;

  /** `isHealthy` is called often and should cache its result. */
  constructor(isHealthy: () => Promise<boolean>, services: readonly string[]) {
    this.#isHealthy = isHealthy;
    this.#services = new Set(services);
  }

  get handlers() {
    return { Check: this.#check, Watch: this.#watch };
  }

  readonly #check = (call: Call): void => {
    const { service = '' } = call.request as HealthRequest;
    if (!this.#services.has(service)) {
      call.fail(STATUS.NOT_FOUND, 'Unknown service');
    } else void this.#serving().then((serving) => call.respond({ status: serving }));
  };

  readonly #watch = (call: Call): void => {
    const { service = '' } = call.request as HealthRequest;
    if (this.#watchers.size >= MAX_WATCHERS) {
      call.fail(STATUS.RESOURCE_EXHAUSTED, `Expected at most ${MAX_WATCHERS} Watch calls`);
      return;
    }
    call.onEnd(() => this.#watchers.delete(call));
    if (!this.#services.has(service)) {
      // The protocol requires that the call stays open, because the service may appear later.
      this.#watchers.set(call, SERVING.SERVICE_UNKNOWN);
      call.write({ status: SERVING.SERVICE_UNKNOWN });
    } else {
      this.#watchers.set(call, SERVING.UNKNOWN);
      void this.#poll();
    }
    if (this.#isDraining) this.drain();
  };

  async #serving(): Promise<Serving> {
    const isHealthy = !this.#isDraining && (await this.#isHealthy());
    return isHealthy && !this.#isDraining ? SERVING.SERVING : SERVING.NOT_SERVING;
  }

  /**
   * Sends the current status to each watcher whose last status differs. Repeats this every 2 s
   * while there are watchers.
   */
  async #poll(): Promise<void> {
    this.#cancelPoll?.();
    this.#cancelPoll = undefined;
    this.#send(await this.#serving());
    if (this.#watchers.size === 0 || this.#isDraining) return;
    this.#cancelPoll ??= systemClock.schedule(POLL_MS, () => void this.#poll());
  }

  #send(serving: Serving): void {
    for (const [call, sent] of this.#watchers) {
      if (sent === serving || sent === SERVING.SERVICE_UNKNOWN) continue;
      this.#watchers.set(call, serving);
      call.write({ status: serving });
    }
  }

  /** Sends NOT_SERVING to all watchers. Ends their calls, because open calls delay a shutdown. */
  drain(): void {
    this.#isDraining = true;
    this.#cancelPoll?.();
    this.#send(SERVING.NOT_SERVING);
    for (const call of this.#watchers.keys()) call.end();
    this.#watchers.clear();
  }
}
