/**
 * Computes the tokens that a call is charged for when it ends. Pure.
 *
 *     ending                                      input                    output
 *     not sent, network error, status not 2xx     0                        0
 *     stream cut before its first byte            0                        0
 *     aborted before the response, stream         bound                    0
 *     aborted before the response, no stream      bound                    bound
 *     complete, with usage                        usage                    usage
 *     complete JSON without usage, or JSON cut    usage, else bound        bound
 *     stream without final usage                  usage, else bound        text received, up to
 *                                                                          the bound
 *     not read to the end (`abandoned`)           usage, else bound        bound
 *
 * A reasoning model does not stream all its output, so the bound applies instead of the text
 * received. The bound of the output is the cap in the body of the request.
 */
import { asMostExpensiveInput, type ModelOptions } from './models.ts';
import type { ResponseMeter } from './response-meter.ts';
import type { TokenBound } from './token-bound.ts';
import type { Usage } from './usage.ts';

/** How a call ended. */
export type Ending =
  | 'unsent'
  | 'failed'
  | 'aborted'
  | 'rejected'
  | 'completed'
  | 'cut'
  | 'cancelled'
  | 'abandoned';

export interface Tokens {
  readonly inputTokens: number;
  readonly outputTokens: number;
}

export interface CallFacts {
  readonly bound: TokenBound;
  readonly reserved: Tokens;
  readonly isStream: boolean;
  readonly hidesReasoning: boolean;
  readonly model: ModelOptions | undefined;
}

const NOTHING: Usage = {
  inputTokens: 0,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens: 0,
};

type Measurement = Readonly<
  Pick<ResponseMeter, 'usage' | 'form' | 'bodyBytes' | 'outputBytes' | 'events' | 'isComplete'>
>;

/**
 * Returns an upper bound of the output tokens that were received. Each token has at least one byte
 * of text, or arrives in an event of its own.
 */
export const receivedTokens = ({ outputBytes, events, bodyBytes }: Measurement): number =>
  outputBytes > 0 ? outputBytes + events : bodyBytes;

function outputTokens(facts: CallFacts, ending: Ending, meter: Measurement): number {
  const { bound, reserved, isStream, hidesReasoning } = facts;
  const reported = meter.usage.outputTokens;
  if (reported !== undefined && meter.isComplete) return reported;
  const received = receivedTokens(meter);
  const most = bound.outputTokens ?? Math.max(reserved.outputTokens, received);
  const isEvents = meter.events > 0 || (isStream && meter.form !== 'json');
  const isMost = !isEvents || hidesReasoning || ending === 'abandoned';
  return Math.max(
    reported ?? 0,
    isMost ? most : Math.min(received, bound.outputTokens ?? received),
  );
}

/** Returns the tokens to charge for a call that generates tokens. */
export function actualUsage(facts: CallFacts, ending: Ending, meter: Measurement): Usage {
  const { bound, reserved, isStream, model } = facts;
  if (ending === 'unsent' || ending === 'failed' || ending === 'rejected') return NOTHING;
  const inputBound = asMostExpensiveInput(model, bound.inputTokens ?? reserved.inputTokens);
  if (ending === 'aborted') {
    // Without a stream, the provider completes the call and bills it.
    const isStopped = isStream && !facts.hidesReasoning;
    const output = isStopped ? 0 : (bound.outputTokens ?? reserved.outputTokens);
    return { ...inputBound, outputTokens: output };
  }
  if (ending === 'cut' && isStream && meter.bodyBytes === 0) return NOTHING;
  const { inputTokens, cachedInputTokens = 0, cacheWriteTokens = 0 } = meter.usage;
  const input =
    inputTokens === undefined ? inputBound : { inputTokens, cachedInputTokens, cacheWriteTokens };
  return { ...input, outputTokens: outputTokens(facts, ending, meter) };
}
