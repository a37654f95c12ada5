/** Sends requests with exactly the given headers, such as those that only browsers can send. */
import { once } from 'node:events';
import { type IncomingHttpHeaders, type RequestOptions, request } from 'node:http';
import { request as secureRequest } from 'node:https';

export interface PlainResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field of the body.
  readonly json: any;
}

/** Sends a request. `more` can contain the local address, or the CA to trust. */
export async function sendRequest(
  url: string,
  method: string,
  headers: Readonly<Record<string, string | readonly string[]>> = {},
  body?: unknown,
  more: RequestOptions & { ca?: Buffer } = {},
): Promise<PlainResponse> {
  const send = url.startsWith('https:') ? secureRequest : request;
  const options = { method, headers: headers as Record<string, string>, agent: false as const };
  const sent = send(url, { ...options, ...more });
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = await once(sent, 'response');
  let text = '';
  const isStream = String(response.headers['content-type']).startsWith('text/event-stream');
  // An event stream never ends.
  if (isStream) sent.destroy();
  else for await (const piece of response.setEncoding('utf8')) text += piece;
  const isJson = String(response.headers['content-type']).includes('json') && text !== '';
  const json = isJson ? JSON.parse(text) : undefined;
  return { status: response.statusCode, headers: response.headers, text, json };
}

/** Returns the cookie that a browser sends after this response. */
export const cookieIn = ({ headers }: PlainResponse): string =>
  String(headers['set-cookie']?.[0]).split(';')[0];
