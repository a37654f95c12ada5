/**
 * The health checking protocol of gRPC: serving unless the store is away, or the server is about to
 * stop.
 */
import { systemClock } from 'sluice';
import { type Call, STATUS } from './grpc-calls.ts';

const SERVING = { UNKNOWN: 0, SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } as const;
type Serving = (typeof SERVING)[keyof typeof SERVING];

interface HealthRequest {
  readonly service?: string;
}
const LOOK_EVERY_MS = 2000;
/** Each keeps its connection open for as long as it likes. */
export const MAX_WATCHERS = 1000;

export class HealthService {
  readonly #isHealthy: () => Promise<boolean>;
  readonly #services: ReadonlySet<string>;
  #isDraining = false;
  /** Those who want to be told of changes, and what they were told last. */
  readonly #watchers = new Map<Call, Serving>();
  #stopLooking: (() => void) | undefined = undefined;

  /** `isHealthy` is asked often, so it should remember its answer for a while. */
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
      call.fail(STATUS.NOT_FOUND, 'There is no such service here');
    } else void this.#serving().then((serving) => call.answer({ status: serving }));
  };

  readonly #watch = (call: Call): void => {
    const { service = '' } = call.request as HealthRequest;
    if (this.#watchers.size >= MAX_WATCHERS) {
      call.fail(STATUS.RESOURCE_EXHAUSTED, `Expected at most ${MAX_WATCHERS} calls that watch`);
      return;
    }
    call.onEnd(() => this.#watchers.delete(call));
    if (!this.#services.has(service)) {
      // It may come to be, for all that the caller knows; so the call stays open.
      this.#watchers.set(call, SERVING.SERVICE_UNKNOWN);
      call.write({ status: SERVING.SERVICE_UNKNOWN });
    } else {
      this.#watchers.set(call, SERVING.UNKNOWN);
      void this.#look();
    }
    if (this.#isDraining) this.drain();
  };

  async #serving(): Promise<Serving> {
    const isHealthy = !this.#isDraining && (await this.#isHealthy());
    return isHealthy && !this.#isDraining ? SERVING.SERVING : SERVING.NOT_SERVING;
  }

  /** Tells watchers of a change, and looks again later for as long as there are any. */
  async #look(): Promise<void> {
    this.#stopLooking?.();
    this.#stopLooking = undefined;
    this.#tell(await this.#serving());
    if (this.#watchers.size === 0 || this.#isDraining) return;
    this.#stopLooking ??= systemClock.schedule(LOOK_EVERY_MS, () => void this.#look());
  }

  #tell(serving: Serving): void {
    for (const [call, told] of this.#watchers) {
      if (told === serving || told === SERVING.SERVICE_UNKNOWN) continue;
      this.#watchers.set(call, serving);
      call.write({ status: serving });
    }
  }

  /** Says that it is over. Calls that only watch would keep the server from stopping. */
  drain(): void {
    this.#isDraining = true;
    this.#stopLooking?.();
    this.#tell(SERVING.NOT_SERVING);
    for (const call of this.#watchers.keys()) call.end();
    this.#watchers.clear();
  }
}
