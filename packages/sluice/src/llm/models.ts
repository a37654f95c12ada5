/** Prices and token caps of models, and the price of tokens in integers. Pure. */
import { checkInteger, expected, isRecord } from '../errors.ts';
import { checkOptionNames } from '../http/check-options.ts';
import type { Usage } from './usage.ts';

export interface ModelOptions {
  /**
   * Price of a million input tokens, in units of the currency. Default: none. Required for a limit
   * on money.
   *
   * @example input: 2.5
   */
  readonly input?: number;
  /**
   * Price of a million output tokens, including reasoning. Default: none. Required for a limit on
   * money.
   *
   * @example output: 10
   */
  readonly output?: number;
  /**
   * Price of a million input tokens that are read from the prompt cache. Default: `input`.
   *
   * @example cachedInput: 1.25
   */
  readonly cachedInput?: number;
  /**
   * Price of a million input tokens that are written to the prompt cache. Default: `input`. If the
   * price depends on the lifetime in the cache, set the highest one you use.
   *
   * @example cacheWrite: 3.75
   */
  readonly cacheWrite?: number;
  /**
   * The output tokens that a call reserves if its body has no cap such as `max_tokens`. Default:
   * none, and such a call is rejected.
   *
   * @example maxOutputTokens: 16_384
   */
  readonly maxOutputTokens?: number;
  /**
   * The most input tokens of a call, such as the context window. Default: the bytes of the body.
   * Required for calls with content that bytes do not bound: images, files, server-side tools.
   *
   * @example maxInputTokens: 128_000
   */
  readonly maxInputTokens?: number;
  /**
   * Whether the model generates reasoning tokens that it does not stream. The bytes received then
   * do not bound the output. Default: whether the body has a field that turns reasoning on.
   *
   * @example hidesReasoning: true
   */
  readonly hidesReasoning?: boolean;
}

export type ModelTable = Readonly<Record<string, ModelOptions>>;

const PRICES = ['input', 'output', 'cachedInput', 'cacheWrite'] as const;
const CAPS = ['maxOutputTokens', 'maxInputTokens'] as const;
const FIELDS = [...PRICES, ...CAPS, 'hidesReasoning'];
/** The highest valid price. A higher one has the wrong unit. The bound keeps costs below 2^53. */
const MAX_PRICE = 1_000_000;

/** Throws if the table has an invalid entry. */
export function checkModels(models: unknown): void {
  if (!isRecord(models)) {
    throw expected('ERR_INVALID_OPTION', '`models` to be an object of models', models);
  }
  for (const [name, model] of Object.entries(models)) {
    checkOptionNames(model, FIELDS);
    const given = model as Record<string, unknown>;
    for (const field of PRICES) checkPrice(`\`${field}\` of ${name}`, given[field]);
    for (const field of CAPS) {
      const cap = given[field];
      if (cap !== undefined) checkInteger('ERR_INVALID_OPTION', `\`${field}\` of ${name}`, cap, 1);
    }
    if ((given.input === undefined) !== (given.output === undefined)) {
      throw expected(
        'ERR_INVALID_OPTION',
        `\`input\` and \`output\` of ${name}, or neither`,
        model,
      );
    }
  }
}

function checkPrice(what: string, price: unknown): void {
  if (price === undefined) return;
  if (typeof price === 'number' && price >= 0 && price <= MAX_PRICE) return;
  throw expected('ERR_INVALID_OPTION', `${what} to be a number from 0 to ${MAX_PRICE}`, price);
}

/** `-2024-08-06`, `-20250514`, `@20250514`, `-latest` */
const VERSION = /(?:-\d{4}-\d\d-\d\d|[-@]\d{8}|-latest)$/;

/**
 * Returns the entry of a model: by its name, by its name without the date, or `*`. No other prefix
 * is used, because models with a longer name can have a higher price.
 */
export function modelOf(models: ModelTable, name: string): ModelOptions | undefined {
  const found = [name, name.replace(VERSION, ''), '*'].find((each) => Object.hasOwn(models, each));
  return found === undefined ? undefined : models[found];
}

type Prices = Pick<ModelOptions, (typeof PRICES)[number]>;

/** Prices are multiplied by this number, so that prices with up to six decimals are exact. */
const SCALE = 1_000_000;
const scaled = (price: number): bigint => BigInt(Math.round(price * SCALE));

const ratesOf = ({ input = 0, output = 0, cachedInput = input, cacheWrite = input }: Prices) => ({
  inputTokens: input,
  cachedInputTokens: cachedInput,
  cacheWriteTokens: cacheWrite,
  outputTokens: output,
});

/**
 * Returns the cost in millionths of the currency, rounded up. A price per million tokens needs no
 * conversion, because it is the price of one token in millionths.
 */
export function costOf(prices: Prices, usage: Usage): number {
  let sum = 0n;
  for (const [kind, rate] of Object.entries(ratesOf(prices))) {
    sum += BigInt(usage[kind as keyof Usage]) * scaled(rate);
  }
  return Number((sum + BigInt(SCALE - 1)) / BigInt(SCALE));
}

/** Counts all of `tokens`, whose kind is unknown, as the kind of input with the highest price. */
export function asMostExpensiveInput(
  prices: Prices | undefined,
  tokens: number,
): Omit<Usage, 'outputTokens'> {
  const none = { inputTokens: 0, cachedInputTokens: 0, cacheWriteTokens: 0 };
  const rates = ratesOf(prices ?? {});
  const kinds = Object.keys(none) as (keyof typeof none)[];
  const mostExpensive = kinds.reduce((best, kind) => (rates[kind] > rates[best] ? kind : best));
  return { ...none, [mostExpensive]: tokens };
}
