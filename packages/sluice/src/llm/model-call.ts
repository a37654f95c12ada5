/** The properties of a request to a model API on which the limits depend. */
import { isRecord } from '../errors.ts';

export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** `other` is any call that generates no tokens, such as a list of models or an upload. */
export type Endpoint = 'chat' | 'completions' | 'responses' | 'messages' | 'embeddings' | 'other';

/** A call of the SDK. The functions in the options of `llmFetch` receive it. */
export interface ModelCall {
  readonly url: URL;
  readonly method: string;
  readonly headers: Headers;
  /** The shape of the API. Errors are returned in this shape. */
  readonly provider: 'openai' | 'anthropic';
  readonly endpoint: Endpoint;
  /** The `model` of the body, or the deployment in the path. Empty if there is none. */
  readonly model: string;
  /** The JSON object in the body. Undefined if the body is something else. */
  readonly body: Readonly<Record<string, unknown>> | undefined;
  /** The length of the body in bytes, if it is JSON. */
  readonly bodyBytes: number;
  /** Whether the body asks for a stream of events. */
  readonly isStream: boolean;
}

const ENDPOINTS: Readonly<Record<string, Endpoint>> = {
  'chat/completions': 'chat',
  completions: 'completions',
  responses: 'responses',
  messages: 'messages',
  embeddings: 'embeddings',
};
const ENDPOINT = /\/(chat\/completions|completions|responses|messages|embeddings)\/?$/;
const NOT_GENERATING = /\/(?:count_tokens|moderations|batches|files|threads\/[^/]+\/messages)\/?$/;
const DEPLOYMENT = /\/(?:deployments|models?)\/([^/:]+)[/:]/;

/** Returns the endpoint. A body with messages is a chat at any path: paths of clouds differ. */
function endpointOf(method: string, path: string, body: ModelCall['body']): Endpoint {
  if (method !== 'POST' || NOT_GENERATING.test(path)) return 'other';
  const name = ENDPOINT.exec(path)?.[1];
  if (name !== undefined) return ENDPOINTS[name];
  return Array.isArray(body?.messages) ? 'chat' : 'other';
}

/** Returns the text of a body. Returns undefined if reading it would consume it. */
async function textOf(input: string | URL | Request, init: RequestInit | undefined) {
  const body: unknown = init?.body;
  if (typeof body === 'string') return body;
  if (body instanceof ArrayBuffer) return new TextDecoder().decode(body);
  if (ArrayBuffer.isView(body)) {
    return new TextDecoder().decode(new Uint8Array(body.buffer, body.byteOffset, body.byteLength));
  }
  if (body !== undefined && body !== null) return undefined;
  if (!(input instanceof Request) || input.body === null) return undefined;
  const isJson = /\bjson\b/.test(input.headers.get('content-type') ?? '');
  return isJson ? input.clone().text() : undefined;
}

function objectIn(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export async function modelCall(
  input: string | URL | Request,
  init: RequestInit | undefined,
): Promise<ModelCall> {
  const request = input instanceof Request ? input : undefined;
  const url = new URL(request?.url ?? String(input));
  const headers = new Headers(init?.headers ?? request?.headers);
  const method = (init?.method ?? request?.method ?? 'GET').toUpperCase();
  const text = await textOf(input, init);
  const body = objectIn(text);
  const endpoint = endpointOf(method, url.pathname, body);
  const isAnthropic = headers.has('anthropic-version') || /\/v1\/messages\b/.test(url.pathname);
  const model = body?.model ?? DEPLOYMENT.exec(url.pathname)?.[1];
  return {
    ...{ url, method, headers, endpoint, body },
    provider: isAnthropic ? 'anthropic' : 'openai',
    model: typeof model === 'string' ? model : '',
    bodyBytes: body === undefined ? 0 : new TextEncoder().encode(text).length,
    isStream: body?.stream === true,
  };
}

export const signalOf = (
  input: string | URL | Request,
  init: RequestInit | undefined,
): AbortSignal | undefined =>
  init?.signal ?? (input instanceof Request ? input.signal : undefined) ?? undefined;
