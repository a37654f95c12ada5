/**
 * The charges of one call, which are adjusted while it runs and when it ends.
 *
 * If a cost increases and the limits have capacity, the difference is charged by another check. If
 * they lack capacity, it is added to the newest charge as debt, past the limit, because the work is
 * already done. If a cost decreases, the difference is refunded from the newest charge first.
 * Adjustments run one after another.
 */
import type { Limiter, Policies } from '../api.ts';
import type { Clock } from '../clock.ts';
import type { Charge } from '../decision.ts';
import { SluiceError } from '../errors.ts';

/** Delays before an adjustment that the store certainly did not apply is sent again. */
const RETRY_MS = [100, 1000, 10_000];

/** The charges of one check, in the order of the limits. Undefined where nothing is charged. */
type Layer = (Charge | undefined)[];

export class Charges {
  /** The first error of an adjustment. The charges of that adjustment stay as they were. */
  error: unknown;
  readonly #limiter: Limiter<Policies>;
  readonly #clock: Clock;
  readonly #layers: Layer[];
  #last: Promise<void> | undefined;

  constructor(limiter: Limiter<Policies>, charges: readonly Charge[], clock: Clock) {
    this.#limiter = limiter;
    this.#clock = clock;
    this.#layers = [[...charges]];
  }

  /** The cost charged to each limit. */
  get costs(): readonly number[] {
    return this.#layers[0].map((_, at) =>
      this.#layers.reduce((sum, layer) => sum + (layer[at]?.cost ?? 0), 0),
    );
  }

  /** Changes the costs to `targets`, after earlier adjustments. Never rejects. */
  adjustTo(targets: readonly number[]): Promise<void> {
    const adjust = (): Promise<void> => this.#adjust(targets);
    this.#last = this.#last === undefined ? adjust() : this.#last.then(adjust);
    return this.#last;
  }

  async #adjust(targets: readonly number[]): Promise<void> {
    const changes = this.costs.map((cost, at) => targets[at] - cost);
    try {
      await this.#refund(changes.map((change) => Math.max(-change, 0)));
      await this.#charge(changes.map((change) => Math.max(change, 0)));
    } catch (error) {
      this.error ??= error;
    }
  }

  async #refund(amounts: readonly number[]): Promise<void> {
    const remaining = [...amounts];
    for (const layer of this.#layers.toReversed()) {
      const costs = layer.map((charge, at) => {
        const refunded = Math.min(remaining[at], charge?.cost ?? 0);
        remaining[at] -= refunded;
        return (charge?.cost ?? 0) - refunded;
      });
      await this.#settle(layer, costs);
    }
  }

  async #charge(amounts: readonly number[]): Promise<void> {
    const added = [...amounts.keys()].filter((at) => amounts[at] > 0);
    if (added.length === 0) return;
    const taken = await this.#take(
      added.map((at) => ({ ...this.#limitAt(at), cost: amounts[at] })),
    );
    if (taken === undefined) return this.#chargeAsDebt(amounts);
    const layer: Layer = amounts.map(() => undefined);
    for (const [place, at] of added.entries()) layer[at] = taken[place];
    this.#layers.push(layer);
  }

  #limitAt(at: number): { policy: string; key: string } {
    const { policy, key } = this.#layers.find((layer) => layer[at] !== undefined)![at]!;
    return { policy, key };
  }

  /** Charges the limits if all have capacity. Otherwise returns undefined. */
  async #take(limits: readonly { policy: string; key: string; cost: number }[]) {
    try {
      // Peek first: a denied check would be reported as a denial, and could block the key.
      if (!(await this.#limiter.peek(limits)).allowed) return undefined;
      return (await this.#limiter.check(limits)).receipt?.charges;
    } catch (error) {
      if (error instanceof SluiceError && error.code === 'ERR_COST_ABOVE_LIMIT') return undefined;
      throw error;
    }
  }

  /** Adds amounts to the newest charges, even past the limit. */
  async #chargeAsDebt(amounts: readonly number[]): Promise<void> {
    const remaining = [...amounts];
    for (const layer of this.#layers.toReversed()) {
      const costs = layer.map((charge, at) => {
        if (charge === undefined) return 0;
        const added = remaining[at];
        remaining[at] = 0;
        return charge.cost + added;
      });
      await this.#settle(layer, costs);
    }
  }

  /** Settles the charges of a layer whose cost changes. */
  async #settle(layer: Layer, costs: readonly number[]): Promise<void> {
    const changed = [...layer.keys()].filter((at) => (layer[at]?.cost ?? 0) !== costs[at]);
    if (changed.length === 0) return;
    await this.#send(
      changed.map((at) => layer[at]!),
      changed.map((at) => costs[at]),
    );
    for (const at of changed) {
      layer[at] = costs[at] === 0 ? undefined : { ...layer[at]!, cost: costs[at] };
    }
  }

  async #send(charges: readonly Charge[], costs: readonly number[]): Promise<void> {
    const receipt = { charges };
    for (let attempt = 0; ; attempt++) {
      try {
        await this.#limiter.settle(receipt, costs);
        return;
      } catch (error) {
        const isNotDone = (error as { notDone?: true }).notDone === true;
        if (!isNotDone || attempt >= RETRY_MS.length) throw error;
      }
      await new Promise<void>((resolve) => this.#clock.schedule(RETRY_MS[attempt], resolve));
    }
  }
}
