/** Computes what a call reserves: a cost for each limit. Collects the facts for its settlement. */
import { checkInteger, isRecord, SluiceError } from '../errors.ts';
import type { Key } from '../key.ts';
import { type Unit, unitCost } from './call-record.ts';
import type { ModelCall } from './model-call.ts';
import { asMostExpensiveInput, modelOf } from './models.ts';
import { type LlmFetchOptions, type ResolvedOptions, UNITS } from './options.ts';
import type { Needs } from './provider-limits.ts';
import type { CallFacts, Tokens } from './settlement.ts';
import { hidesReasoning, type TokenBound, tokenBound } from './token-bound.ts';

export interface LimitToReserve {
  readonly policy: string;
  readonly key: Key;
  readonly cost: number;
}

export interface Plan {
  readonly facts: CallFacts | undefined;
  readonly units: readonly Unit[];
  /** One limit for each unit, then the slot if there is one. */
  readonly limits: readonly LimitToReserve[];
  readonly hasSlot: boolean;
  /** The capacity of the provider's limits that the call uses. */
  readonly needs: Needs;
}

type Limits = ResolvedOptions['limits'];

function tokensToReserve(
  call: ModelCall,
  limits: Limits,
  bound: TokenBound,
  estimate: TokenBound,
): Tokens {
  const input = estimate.inputTokens ?? bound.inputTokens;
  const output = estimate.outputTokens ?? bound.outputTokens;
  const isCounted = (unit: Unit): boolean =>
    limits.tokens !== undefined || limits.money !== undefined || limits[unit] !== undefined;
  if (input === undefined && isCounted('inputTokens')) {
    throw unboundedError(call, 'maxInputTokens', 'refers to content that its bytes do not bound');
  }
  if (output === undefined && isCounted('outputTokens')) {
    throw unboundedError(call, 'maxOutputTokens', 'has no cap on its output tokens');
  }
  return { inputTokens: input ?? 0, outputTokens: output ?? 0 };
}

function unboundedError({ model }: ModelCall, option: string, reason: string): SluiceError {
  const message =
    `Expected \`${option}\` of \`${model}\` in \`models\`, or \`estimate\`, ` +
    `because the request ${reason}`;
  return new SluiceError('ERR_UNBOUNDED_CALL', message);
}

async function factsOf(call: ModelCall, options: ResolvedOptions): Promise<CallFacts | undefined> {
  if (call.endpoint === 'other') return undefined;
  const { limits, models } = options;
  const model = modelOf(models, call.model);
  if (limits.money !== undefined && model?.input === undefined) {
    const message = `Expected prices of \`${call.model}\` in \`models\`, got none`;
    throw new SluiceError('ERR_UNKNOWN_PRICE', message);
  }
  const bound = tokenBound(call, model);
  const estimate = await estimateOf(call, bound, options.estimate);
  return {
    bound,
    reserved: tokensToReserve(call, limits, bound, estimate),
    isStream: call.isStream,
    hidesReasoning: hidesReasoning(call, model),
    model,
  };
}

async function estimateOf(
  call: ModelCall,
  bound: TokenBound,
  estimate: LlmFetchOptions['estimate'],
): Promise<TokenBound> {
  const given = await estimate?.(call, bound);
  if (!isRecord(given)) return {};
  for (const [name, tokens] of Object.entries(given)) {
    if (tokens !== undefined) checkInteger('ERR_INVALID_COST', `\`${name}\``, tokens, 0);
  }
  return given;
}

/** Returns the cost of a unit to reserve; 0 if the call is not charged for it. */
function costToReserve(unit: Unit, facts: CallFacts | undefined): number {
  if (unit === 'requests') return 1;
  if (facts === undefined) return 0;
  const { inputTokens, outputTokens } = facts.reserved;
  const usage = { ...asMostExpensiveInput(facts.model, inputTokens), outputTokens };
  const isFree =
    (unit === 'outputTokens' && facts.bound.outputTokens === 0) ||
    (unit === 'money' && !facts.model?.input && !facts.model?.output);
  // At least 1, so that there is a charge to settle.
  return isFree ? 0 : Math.max(unitCost(unit, usage, facts), 1);
}

/** Returns the plan of a call. Throws if the call has no bound or no price. */
export async function planOf(call: ModelCall, options: ResolvedOptions): Promise<Plan> {
  const facts = await factsOf(call, options);
  const { limits } = options;
  const costs = UNITS.map((unit) => [unit, costToReserve(unit, facts)] as const);
  const charged = costs.filter(([unit, cost]) => limits[unit] !== undefined && cost > 0);
  const slot = limits.slot && { ...limits.slot, cost: 1 };
  const all = [...charged.map(([unit, cost]) => ({ ...limits[unit]!, cost })), slot ?? []].flat();
  const { inputTokens, outputTokens } = facts?.reserved ?? { inputTokens: 0, outputTokens: 0 };
  return {
    facts,
    units: charged.map(([unit]) => unit),
    limits: await Promise.all(
      all.map(async ({ policy, key, cost }) => ({
        ...{ policy, cost },
        key: typeof key === 'function' ? await key(call) : key,
      })),
    ),
    hasSlot: slot !== undefined,
    needs: { requests: 1, tokens: inputTokens + outputTokens, inputTokens, outputTokens },
  };
}
