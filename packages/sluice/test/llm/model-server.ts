/** A server that imitates model APIs, and misbehaves as tests require. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

export interface Reply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly chunks?: readonly (string | Uint8Array)[];
  /** Destroys the connection after this number of chunks. */
  readonly cutAfter?: number;
  /** Keeps the connection open after the last chunk. */
  readonly neverEnds?: boolean;
  /** Compresses the body, which is then sent in one piece. */
  readonly isCompressed?: boolean;
  /** Resolves when the reply may be sent. */
  readonly ready?: Promise<void>;
}

export interface ModelServer {
  readonly url: string;
  /** The JSON bodies that were received. */
  readonly bodies: Record<string, unknown>[];
  /** Returns the reply to a request. */
  reply: (body: Record<string, unknown>) => Reply;
  close(): Promise<void>;
}

async function send(response: ServerResponse, reply: Reply): Promise<void> {
  const { status = 200, headers = {}, chunks = [], cutAfter, isCompressed } = reply;
  await reply.ready;
  if (isCompressed) {
    response.writeHead(status, { ...headers, 'Content-Encoding': 'gzip' });
    response.end(gzipSync(Buffer.concat(chunks.map((chunk) => Buffer.from(chunk)))));
    return;
  }
  response.writeHead(status, headers);
  response.flushHeaders();
  for (const [place, chunk] of chunks.entries()) {
    if (place === cutAfter || response.destroyed) break;
    response.write(chunk);
    // Each chunk arrives on its own.
    await nextTurn();
  }
  if (cutAfter !== undefined) response.destroy();
  else if (!reply.neverEnds) response.end();
}

export async function startModelServer(): Promise<ModelServer> {
  const running: Pick<ModelServer, 'bodies' | 'reply'> = { bodies: [], reply: () => ({}) };
  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await textOf(request);
    const body = text.startsWith('{') ? JSON.parse(text) : {};
    running.bodies.push(body);
    await send(response, running.reply(body));
  };
  const server = createServer((request, response) => {
    // A client that disconnects is part of the tests.
    handle(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async (): Promise<void> => {
    server.close();
    server.closeAllConnections();
  };
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return Object.assign(running, { url, close });
}

// --- Replies of the providers ---

export const EVENTS = { 'Content-Type': 'text/event-stream' };
export const JSON_TYPE = { 'Content-Type': 'application/json' };

const event = (data: object, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;

export interface Tokens {
  readonly input: number;
  readonly output: number;
}

/** A stream of chat completions, with the usage that `stream_options.include_usage` adds. */
export function chatEvents(words: readonly string[], usage?: Tokens): string[] {
  const chunk = (choices: object[], more: object = {}) =>
    event({ id: 'c1', object: 'chat.completion.chunk', model: 'gpt-4o', choices, ...more });
  const nothing = usage && { usage: null };
  return [
    chunk([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }], nothing),
    ...words.map((content) => chunk([{ index: 0, delta: { content } }], nothing)),
    chunk([{ index: 0, delta: {}, finish_reason: 'stop' }], nothing),
    ...(usage ? [chunk([], { usage: chatUsage(usage) })] : []),
    'data: [DONE]\n\n',
  ];
}

export const chatUsage = ({ input, output }: Tokens, cached = 0) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: 0 },
});

/** A chat completion in one object. */
export const chatObject = (text: string, usage?: object): string =>
  JSON.stringify({
    id: 'c1',
    object: 'chat.completion',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    ...(usage && { usage }),
  });

/** A stream of the responses API. */
export function responseEvents(words: readonly string[], { input, output }: Tokens): string[] {
  const usage = {
    input_tokens: input,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  };
  const typed = (type: string, more: object) => event({ type, ...more }, type);
  return [
    typed('response.created', { response: { id: 'r1', status: 'in_progress', usage: null } }),
    ...words.map((delta) => typed('response.output_text.delta', { item_id: 'm1', delta })),
    typed('response.output_text.done', { text: words.join('') }),
    typed('response.completed', {
      response: { id: 'r1', output: [{ content: [{ text: words.join('') }] }], usage },
    }),
  ];
}

/** A stream of the messages API of Anthropic. */
export function messageEvents(words: readonly string[], { input, output }: Tokens): string[] {
  const typed = (type: string, more: object = {}) => event({ type, ...more }, type);
  return [
    typed('message_start', {
      message: {
        id: 'm1',
        usage: {
          input_tokens: input,
          cache_creation_input_tokens: 0,
          cache_read_input_tokens: 0,
          output_tokens: 1,
        },
      },
    }),
    typed('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
    typed('ping'),
    ...words.map((text) =>
      typed('content_block_delta', { index: 0, delta: { type: 'text_delta', text } }),
    ),
    typed('content_block_stop', { index: 0 }),
    typed('message_delta', {
      delta: { stop_reason: 'end_turn' },
      usage: { output_tokens: output },
    }),
    typed('message_stop'),
  ];
}
