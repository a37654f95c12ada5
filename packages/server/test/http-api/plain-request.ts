/** Requests with every header as it is given, such as those that browsers add by themselves. */
import { once } from 'node:events';
import { type IncomingHttpHeaders, type RequestOptions, request } from 'node:http';
import { request as secureRequest } from 'node:https';

export interface Told {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came.
  readonly json: any;
}

/** `more` may have the address to ask from, or the authority to trust. */
export async function askPlainly(
  url: string,
  method: string,
  headers: Readonly<Record<string, string | readonly string[]>> = {},
  body?: unknown,
  more: RequestOptions & { ca?: Buffer } = {},
): Promise<Told> {
  const ask = url.startsWith('https:') ? secureRequest : request;
  const options = { method, headers: headers as Record<string, string>, agent: false as const };
  const sent = ask(url, { ...options, ...more });
  sent.end(body === undefined ? undefined : JSON.stringify(body));
  const [answer] = await once(sent, 'response');
  let text = '';
  const isFeed = String(answer.headers['content-type']).startsWith('text/event-stream');
  // A feed never ends, so do not wait for it.
  if (isFeed) sent.destroy();
  else for await (const piece of answer.setEncoding('utf8')) text += piece;
  const isJson = String(answer.headers['content-type']).includes('json') && text !== '';
  const json = isJson ? JSON.parse(text) : undefined;
  return { status: answer.statusCode, headers: answer.headers, text, json };
}

/** The cookie that a browser would send from now on. */
export const cookieIn = ({ headers }: Told): string =>
  String(headers['set-cookie']?.[0]).split(';')[0];
