/**
 * One call from its reservation to its settlement, which happens exactly once.
 *
 *     state      event                                              next state
 *     open       a chunk of the response                            open, charges more if needed
 *     open       the call ends (see `Ending`)                       settled
 *     settled    another ending, or a chunk                         settled, no effect
 */
import { warnOnError } from '../warning.ts';
import type { Charges } from './charges.ts';
import type { ModelCall } from './model-call.ts';
import { asMostExpensiveInput, costOf } from './models.ts';
import { ResponseMeter } from './response-meter.ts';
import { actualUsage, type CallFacts, type Ending } from './settlement.ts';
import type { Slot } from './slot.ts';
import { inputOf, type Usage } from './usage.ts';

/** What a limit counts. */
export type Unit = 'requests' | 'tokens' | 'inputTokens' | 'outputTokens' | 'money';

/** Costs by unit, for the units that have a limit. */
export type Costs = { readonly [U in Unit]?: number };

/** The end of a call, as `onSettled` receives it. */
export interface CallSettlement {
  readonly call: ModelCall;
  readonly ending: Ending;
  /** The tokens that the call is charged for. */
  readonly usage: Usage;
  /** Whether the provider reported the usage in full. Otherwise `usage` has upper bounds. */
  readonly isReported: boolean;
  readonly reserved: Costs;
  readonly charged: Costs;
  /** Set if the store could not apply the settlement. The charges then stay as they were. */
  readonly error?: unknown;
}

/** Bytes of text per token, to estimate the output before the provider reports it. */
const BYTES_PER_TOKEN = 4;
/** The least number of output tokens to charge in one step while a response is streamed. */
const MIN_STEP = 64;

export interface CallContext {
  readonly call: ModelCall;
  /** Undefined if the call generates no tokens. */
  readonly facts: CallFacts | undefined;
  /** The units of the charges, in their order. */
  readonly units: readonly Unit[];
  readonly charges: Charges | undefined;
  readonly slot: Slot | undefined;
  readonly onSettled: ((settlement: CallSettlement) => unknown) | undefined;
}

const NO_USAGE: Usage = {
  inputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
};

/** Returns how much a call with this usage costs in the given unit. */
export function unitCost(unit: Unit, usage: Usage, facts: CallFacts | undefined): number {
  if (unit === 'requests') return 1;
  if (unit === 'money') return costOf(facts?.model ?? {}, usage);
  const input = unit === 'outputTokens' ? 0 : inputOf(usage);
  return input + (unit === 'inputTokens' ? 0 : usage.outputTokens);
}

export class CallRecord {
  readonly meter = new ResponseMeter();
  readonly #onEnd: (() => void)[] = [];
  readonly #context: CallContext;
  readonly #reserved: readonly number[];
  /** The costs that the charges were last adjusted to. */
  #targets: readonly number[];
  /** The tokens that are covered by the charges. */
  #coveredInput: number;
  #coveredOutput: number;
  #isSettled = false;

  constructor(context: CallContext) {
    this.#context = context;
    this.#reserved = context.charges?.costs ?? [];
    this.#targets = this.#reserved;
    this.#coveredInput = context.facts?.reserved.inputTokens ?? 0;
    this.#coveredOutput = context.facts?.reserved.outputTokens ?? 0;
  }

  /** Calls `work` when the call ends, for example to stop timers. */
  onEnd(work: () => void): void {
    this.#onEnd.push(work);
  }

  /** Measures a chunk of the body, and charges more if the estimate was too low. */
  chunk(bytes: Uint8Array): void {
    if (this.#isSettled) return;
    this.meter.write(bytes);
    if (this.#context.charges !== undefined) this.#coverOutput();
  }

  /** Charges more if the response so far has more tokens than are charged. */
  #coverOutput(): void {
    const { facts, units, charges } = this.#context;
    if (facts === undefined) return;
    const { usage, outputBytes } = this.meter;
    const estimate = Math.ceil(outputBytes / BYTES_PER_TOKEN);
    const most = facts.bound.outputTokens ?? Number.MAX_SAFE_INTEGER;
    const output = Math.max(usage.outputTokens ?? 0, Math.min(estimate, most));
    const input = inputOf(usage);
    if (output <= this.#coveredOutput && input <= this.#coveredInput) return;
    if (output > this.#coveredOutput) {
      const step = Math.max(Math.ceil(this.#coveredOutput / 4), MIN_STEP);
      this.#coveredOutput = Math.max(output, Math.min(this.#coveredOutput + step, most));
    }
    this.#coveredInput = Math.max(input, this.#coveredInput);
    const covered = {
      ...asMostExpensiveInput(facts.model, this.#coveredInput),
      outputTokens: this.#coveredOutput,
    };
    this.#targets = units.map((unit, at) =>
      Math.max(unitCost(unit, covered, facts), this.#targets[at]),
    );
    charges!.adjustTo(this.#targets);
  }

  /** Settles the call. Returns false if it is settled already. */
  end(ending: Ending): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    for (const work of this.#onEnd) work();
    this.#settle(ending);
    return true;
  }

  async #settle(ending: Ending): Promise<void> {
    const { facts, units, charges, slot } = this.#context;
    const usage = facts === undefined ? NO_USAGE : actualUsage(facts, ending, this.meter);
    const costs = units.map((unit) =>
      unit === 'requests' && ending === 'unsent' ? 0 : unitCost(unit, usage, facts),
    );
    await Promise.all([charges?.adjustTo(costs), slot?.release()]);
    const { onSettled, call } = this.#context;
    if (onSettled === undefined) return;
    const byUnit = (all: readonly number[]): Costs =>
      Object.fromEntries(units.map((unit, at) => [unit, all[at]]));
    await warnOnError(onSettled)({
      ...{ call, ending, usage },
      isReported: this.meter.isComplete && this.meter.usage.outputTokens !== undefined,
      reserved: byUnit(this.#reserved),
      charged: byUnit(charges?.costs ?? []),
      ...(charges?.error !== undefined && { error: charges.error }),
    });
  }
}
