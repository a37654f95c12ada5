/** `GET /v1/events`: the live feed as server-sent events. */
import type { ServerResponse } from 'node:http';
import { systemClock } from 'sluice';
import { MAX_KEY_LENGTH } from 'sluice/engine';
import type { AppContext } from '../app-context.ts';
import { badRequest, HttpError, type RequestContext } from '../http/request-context.ts';
import type { Handler } from '../http/router.ts';
import type { DenialFilter } from '../observe/denials.ts';
import { type EndReason, type Listener, MAX_STREAMS } from '../observe/feed.ts';
import { checkLabel } from '../observe/policy-labels.ts';

/** Maximum size of unread data. A stream with more unread data is ended. */
export const MAX_BACKLOG_BYTES = 256 * 1024;

/** Timeout for the client to read the last event. */
const LINGER_MS = 1000;

/** Delay after which browsers reconnect. */
const RETRY_MS = 2000;

const HEAD = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store, no-transform',
  // Prevents nginx from buffering events.
  'x-accel-buffering': 'no',
  connection: 'close',
};

export class EventStream implements Listener {
  readonly #response: ServerResponse;
  readonly #isAdmitted: () => boolean;

  constructor(
    response: ServerResponse,
    readonly filter: DenialFilter,
    isAdmitted: () => boolean,
  ) {
    this.#response = response;
    this.#isAdmitted = isAdmitted;
    response.writeHead(200, HEAD);
    response.write(`retry: ${RETRY_MS}\n\n`);
  }

  get isAdmitted(): boolean {
    return this.#isAdmitted();
  }

  get isSlow(): boolean {
    return this.#response.writableLength > MAX_BACKLOG_BYTES;
  }

  /** Sends an event. `data` is JSON, which contains no line breaks. */
  send(event: string, data: string): void {
    const response = this.#response;
    if (!response.writableEnded && !response.destroyed) {
      response.write(`event: ${event}\ndata: ${data}\n\n`);
    }
  }

  /** Sends the reason and ends the stream. After 1 s, destroys the connection. */
  end(why: EndReason): void {
    const response = this.#response;
    if (response.writableEnded || response.destroyed) return;
    const cancel = systemClock.schedule(LINGER_MS, () => response.destroy());
    response.once('close', cancel);
    response.end(`event: end\ndata: ${JSON.stringify({ why })}\n\n`);
  }
}

function filterOf(app: AppContext, { query }: RequestContext): DenialFilter {
  const policy = query.get('policy') ?? undefined;
  const key = query.get('key') ?? undefined;
  if (policy !== undefined) checkLabel(app, policy);
  if (key === '' || (key?.length ?? 0) > MAX_KEY_LENGTH) {
    const what = `Expected \`key\` to be a key or pattern of 1 to ${MAX_KEY_LENGTH} characters`;
    throw badRequest('ERR_INVALID_KEY', what);
  }
  return { policy, key };
}

const tooMany = (): HttpError =>
  new HttpError(
    503,
    'ERR_TOO_MANY_STREAMS',
    `Expected at most ${MAX_STREAMS} event streams`,
    undefined,
    { 'retry-after': '10' },
  );

/**
 * Returns a handler that opens an event stream. The request counts as complete when the response
 * headers are sent. So shutdown does not wait for streams, but ends them at once.
 */
export function eventsHandler(app: AppContext): Handler {
  const { access } = app;
  const { feed } = app.live;
  return (context) => {
    context.checkQuery('policy', 'key');
    const filter = filterOf(app, context);
    const { request, response } = context;
    if (request.method === 'HEAD') {
      response.writeHead(200, HEAD).end();
      return;
    }
    if (!feed.hasRoom) throw tooMany();
    const stream = new EventStream(response, filter, () => access.stillAdmits(context));
    response.on('close', () => feed.leave(stream));
    feed.join(stream);
  };
}
