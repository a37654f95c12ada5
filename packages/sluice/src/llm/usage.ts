/**
 * The `usage` object of a response as token counts. Pure.
 *
 * OpenAI includes cached tokens in the input tokens; Anthropic lists them beside the input tokens.
 * Some OpenAI-compatible servers count reasoning only in `total_tokens`.
 */
import { isInteger, isRecord } from '../errors.ts';

/** The tokens of a call, by price. Reasoning counts as output. */
export interface Usage {
  /** Input tokens at the full price. */
  readonly inputTokens: number;
  /** Input tokens that were read from the provider's prompt cache. */
  readonly cachedInputTokens: number;
  /** Input tokens that were written to the provider's prompt cache. */
  readonly cacheWriteTokens: number;
  readonly outputTokens: number;
}

/** The reported part of a usage. A field is undefined if the response has not reported it. */
export type ReportedUsage = { readonly [Field in keyof Usage]?: number };

/** A larger count is a mistake of the server, and the usage is ignored. */
export const MAX_TOKENS = 100_000_000;

export const inputOf = (usage: ReportedUsage): number =>
  (usage.inputTokens ?? 0) + (usage.cachedInputTokens ?? 0) + (usage.cacheWriteTokens ?? 0);

const isAbsent = (value: unknown): value is null | undefined =>
  value === undefined || value === null;

/** Returns the value of the first of these fields that is present, or undefined. */
function countIn(value: unknown, ...names: readonly string[]): unknown {
  if (!isRecord(value)) return undefined;
  return names.map((name) => value[name]).find((each) => !isAbsent(each));
}

/** Returns the tokens of a `usage` object, or undefined if a count in it is invalid. */
export function parseUsage(value: unknown): ReportedUsage | undefined {
  const read = (...names: readonly string[]): unknown => countIn(value, ...names);
  const counts = {
    input: read('prompt_tokens', 'input_tokens'),
    output: read('completion_tokens', 'output_tokens'),
    total: read('total_tokens'),
    included: countIn(read('prompt_tokens_details', 'input_tokens_details'), 'cached_tokens'),
    read: read('cache_read_input_tokens'),
    written: read('cache_creation_input_tokens'),
  };
  const given = Object.values(counts).filter((count) => !isAbsent(count));
  if (given.length === 0 || !given.every(isTokenCount)) return undefined;
  return toUsage(counts as Partial<Record<keyof typeof counts, number>>);
}

const isTokenCount = (count: unknown): boolean =>
  isInteger(count, 0) && (count as number) <= MAX_TOKENS;

function toUsage(counts: Partial<Record<string, number>>): ReportedUsage {
  const { input, output, total, included = 0, read = 0, written = 0 } = counts;
  const hidden = total === undefined || output === undefined ? 0 : total - (input ?? 0);
  return {
    ...(input !== undefined && {
      inputTokens: Math.max(input - included, 0),
      cachedInputTokens: Math.min(included, input) + read,
      cacheWriteTokens: written,
    }),
    ...(output !== undefined && { outputTokens: Math.max(output, hidden) }),
  };
}

/** Combines two reports of one call. Counts never decrease while a response is streamed. */
export function mergeUsage(one: ReportedUsage, other: ReportedUsage): ReportedUsage {
  const merged: Record<string, number> = { ...one };
  for (const [name, count] of Object.entries(other)) {
    merged[name] = Math.max(merged[name] ?? 0, count);
  }
  return merged;
}
