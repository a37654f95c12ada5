/**
 * Upper bounds of the tokens of a call, from its body. Pure.
 *
 * Input: a token of text has at least one byte, and the JSON around a message has more bytes than
 * the tokens that the provider adds for it. For tools and output formats, the provider adds a
 * prompt of its own. Bytes do not bound content that is not text or not in the body.
 *
 * Output: the largest cap in the body, times the number of choices. The cap that the endpoint reads
 * must be present; a server may ignore the others.
 */
import { isInteger, isRecord } from '../errors.ts';
import type { Endpoint, ModelCall } from './model-call.ts';
import type { ModelOptions } from './models.ts';
import { MAX_TOKENS } from './usage.ts';

export interface TokenBound {
  /** Undefined if the body does not bound the input, and the model has no `maxInputTokens`. */
  readonly inputTokens?: number;
  /** Undefined if the body has no cap, and the model has no `maxOutputTokens`. */
  readonly outputTokens?: number;
}

/** More than the prompts that providers add for tools or a schema (at most about 700 tokens). */
const ADDED_TOKENS = 1000;
/** Fields for which providers add a prompt. */
const ADDING_FIELDS = ['tools', 'functions', 'response_format', 'text', 'output_format'];

/** Content parts and items that consist of text in the body. */
const TEXT_TYPES = new Set([
  ...['text', 'input_text', 'output_text', 'refusal', 'message', 'thinking', 'redacted_thinking'],
  ...['tool_use', 'tool_result', 'function_call', 'function_call_output', 'function', 'custom'],
  ...['custom_tool_call', 'custom_tool_call_output', 'reasoning', 'summary_text'],
  ...['reasoning_text', 'ephemeral'],
]);
/** Fields that refer to content on the provider's side. */
const REFERENCES = ['previous_response_id', 'conversation', 'container', 'mcp_servers'];
/** Fields with messages and tools. A type in other places, such as in a schema, is no content. */
const CONTENT_FIELDS = ['messages', 'input', 'system', 'instructions', 'prompt'];

const CAPS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'];
const OWN_CAPS: Readonly<Record<Endpoint, readonly string[]>> = {
  chat: ['max_tokens', 'max_completion_tokens'],
  completions: ['max_tokens'],
  responses: ['max_output_tokens'],
  messages: ['max_tokens'],
  embeddings: [],
  other: CAPS,
};

type Body = NonNullable<ModelCall['body']>;

/** Whether every content part is text. */
function isText(value: unknown): boolean {
  if (Array.isArray(value)) return value.every(isText);
  if (!isRecord(value)) return true;
  const { type, audio, id, content } = value;
  if (type !== undefined && !TEXT_TYPES.has(type as string)) return false;
  // A spoken message is not text.
  if (audio !== undefined && audio !== null) return false;
  // An object with only an id refers to a prompt that the provider stores.
  if (id !== undefined && type === undefined && content === undefined) return false;
  return isText(content) && isText(value.output);
}

function hasOnlyText(body: Body): boolean {
  const isReferring = REFERENCES.some((name) => body[name] !== undefined && body[name] !== null);
  const tools = Array.isArray(body.tools) ? body.tools : [];
  const areLocal = tools.every(
    (tool) => !isRecord(tool) || tool.type === undefined || TEXT_TYPES.has(tool.type as string),
  );
  return !isReferring && areLocal && CONTENT_FIELDS.every((name) => isText(body[name]));
}

function inputBound(body: Body, bytes: number, most: number | undefined): number | undefined {
  if (!hasOnlyText(body)) return most;
  const added = ADDING_FIELDS.some((name) => body[name] !== undefined) ? ADDED_TOKENS : 0;
  return Math.min(bytes + added, most ?? MAX_TOKENS);
}

const capIn = (body: Body, name: string): number => {
  const cap = body[name];
  // Some servers read 0 or -1 as "no cap".
  return isInteger(cap, 1) ? cap : 0;
};

function outputBound(body: Body, endpoint: Endpoint, most: number | undefined): number | undefined {
  if (endpoint === 'embeddings') return 0;
  const choices = Math.max(capIn(body, 'n'), capIn(body, 'best_of'), 1);
  const isCapped = OWN_CAPS[endpoint].some((name) => capIn(body, name) > 0);
  const caps = CAPS.map((name) => capIn(body, name));
  if (!isCapped && most === undefined) return undefined;
  const cap = Math.max(...caps, isCapped ? 0 : most!);
  return Math.min(cap * choices, MAX_TOKENS);
}

/** Returns the bounds of a call that generates tokens. */
export function tokenBound(call: ModelCall, model: ModelOptions = {}): TokenBound {
  const { body, bodyBytes, endpoint } = call;
  const { maxInputTokens, maxOutputTokens } = model;
  const input = body === undefined ? maxInputTokens : inputBound(body, bodyBytes, maxInputTokens);
  const output =
    body === undefined ? maxOutputTokens : outputBound(body, endpoint, maxOutputTokens);
  return {
    ...(input !== undefined && { inputTokens: input }),
    ...(output !== undefined && { outputTokens: output }),
  };
}

/** Whether the output may contain tokens that are not streamed. */
export function hidesReasoning({ body }: ModelCall, model: ModelOptions | undefined): boolean {
  if (model?.hidesReasoning !== undefined) return model.hidesReasoning;
  const thinking = isRecord(body?.thinking) && body.thinking.type !== 'disabled';
  return thinking || isSet(body?.reasoning) || isSet(body?.reasoning_effort);
}

const isSet = (value: unknown): boolean =>
  value !== undefined && value !== null && value !== 'none';
