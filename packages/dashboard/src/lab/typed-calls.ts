/** Parses and formats calls as lines of text: a time and a cost. */
import { BOUNDS, isWithin, type LabSettings, MAX_CALLS, type TypedCall } from './settings.ts';

/** Times from this value on are Unix times in ms. Smaller times are relative to the start. */
const MIN_EPOCH_MS = 100_000_000_000;

export type ParsedCalls =
  | { readonly calls: readonly TypedCall[]; readonly problem?: undefined }
  | { readonly problem: string };

export function parseCalls(text: string, startMs: number): ParsedCalls {
  const calls: TypedCall[] = [];
  for (const [at, line] of text.split('\n').entries()) {
    const bare = line.replace(/#.*/, '').trim();
    if (bare === '') continue;
    const [, time, cost = '1'] = /^(\d{1,15})(?:[\s,;]+(\d{1,7}))?$/.exec(bare) ?? [];
    if (time === undefined || !isWithin('cost', Number(cost))) {
      const got = bare.slice(0, 40);
      return { problem: `Expected line ${at + 1} to be a time and a cost, got \`${got}\`` };
    }
    const timeMs = Number(time);
    calls.push({
      atMs: timeMs >= MIN_EPOCH_MS ? timeMs : startMs + timeMs,
      cost: Number(cost),
    });
  }
  if (calls.length > MAX_CALLS) {
    return { problem: `Expected at most ${MAX_CALLS} calls, got ${calls.length}` };
  }
  return { calls: calls.sort((a, b) => a.atMs - b.atMs) };
}

/**
 * Returns the start of the traffic: the current start if the first call is within 20 windows after
 * it, otherwise the window boundary before the first call.
 */
export function startOf({ startMs, windowMs }: LabSettings, calls: readonly TypedCall[]): number {
  const firstMs = calls[0]?.atMs ?? startMs;
  const isNear = firstMs >= startMs && firstMs < startMs + BOUNDS.windows[1] * windowMs;
  return isNear ? startMs : Math.floor(firstMs / windowMs) * windowMs;
}

export const callsText = (calls: readonly TypedCall[], startMs: number): string =>
  calls.map(({ atMs, cost }) => `${atMs - startMs}, ${cost}`).join('\n');
