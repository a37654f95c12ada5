/**
 * gRPC calls on HTTP/2 streams: one request message, one or more response messages. The size of a
 * request and the time to receive it are limited. An invalid request ends with a gRPC status.
 */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import { systemClock } from 'sluice';
import { BodyShare } from '../http/body-budget.ts';

export const STATUS = {
  OK: 0,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  RESOURCE_EXHAUSTED: 8,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
} as const;
export type Status = (typeof STATUS)[keyof typeof STATUS];

export const MAX_MESSAGE_BYTES = 256 * 1024;
/** Prefix of a message: 1 byte for compression, 4 bytes for the length. */
const PREFIX_BYTES = 5;
/** Timeout for a whole request message, as for HTTP requests. */
export const REQUEST_TIMEOUT_MS = 15_000;

const RESPONSE = {
  ':status': 200,
  'content-type': 'application/grpc',
  'grpc-accept-encoding': 'identity',
};

/** An error with a gRPC status. */
export class CallError extends Error {
  constructor(
    readonly status: Status,
    message: string,
  ) {
    super(message);
  }
}

export interface Method {
  readonly requestDeserialize: (bytes: Buffer) => object;
  readonly responseSerialize: (message: object) => Buffer;
  /** Called when the request message is complete. */
  handle(call: Call): void;
}

export class Call {
  readonly #method: Method;
  readonly #stream: ServerHttp2Stream;
  #onEnd: (() => void) | undefined = undefined;
  /** The request message. Set before `handle` is called. */
  request: object = {};

  constructor(method: Method, stream: ServerHttp2Stream) {
    this.#method = method;
    this.#stream = stream;
    stream.once('close', () => this.#onEnd?.());
  }

  /** Calls `listener` when the server or the client ends the call. */
  onEnd(listener: () => void): void {
    this.#onEnd = listener;
  }

  /** Sends a message and ends the call. */
  respond(message: object): void {
    this.write(message);
    this.end();
  }

  /** Sends a message. The call stays open for further messages. */
  write(message: object): void {
    const stream = this.#stream;
    if (stream.destroyed || stream.writableEnded) return;
    this.#begin();
    stream.write(frameOf(this.#method.responseSerialize(message)));
  }

  /** Ends the call with status OK. */
  end(): void {
    const stream = this.#stream;
    if (stream.destroyed || stream.writableEnded) return;
    this.#begin();
    stream.end();
  }

  #begin(): void {
    const stream = this.#stream;
    if (stream.headersSent) return;
    stream.once('wantTrailers', () => stream.sendTrailers({ 'grpc-status': STATUS.OK }));
    stream.respond(RESPONSE, { waitForTrailers: true });
  }

  fail(status: Status, details: string): void {
    rejectCall(this.#stream, status, details);
  }
}

/** Ends a call with a status. Does not read further data of the client. */
export function rejectCall(stream: ServerHttp2Stream, status: Status, details: string): void {
  if (stream.destroyed || stream.headersSent) return;
  const fields = { 'grpc-status': status, 'grpc-message': percentEncoded(details) };
  stream.respond({ ...RESPONSE, ...fields }, { endStream: true });
  stream.close(constants.NGHTTP2_NO_ERROR);
}

/** Receives the message of a stream and passes it to the handler. Never throws. */
export function receive(
  method: Method,
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  client: string,
): void {
  const call = new Call(method, stream);
  const encoding = headers['grpc-encoding'] ?? 'identity';
  if (encoding !== 'identity') {
    rejectCall(stream, STATUS.UNIMPLEMENTED, 'Expected messages without compression');
    return;
  }
  const chunks: Buffer[] = [];
  let size = 0;
  const share = new BodyShare(stream, client);
  const cancel = systemClock.schedule(REQUEST_TIMEOUT_MS, () =>
    rejectCall(
      stream,
      STATUS.DEADLINE_EXCEEDED,
      `Expected the message within ${REQUEST_TIMEOUT_MS} ms`,
    ),
  );
  stream.once('close', cancel);
  stream.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > PREFIX_BYTES + MAX_MESSAGE_BYTES) {
      chunks.length = 0;
      rejectCall(stream, STATUS.RESOURCE_EXHAUSTED, tooLarge());
    } else if (!share.grow(size)) {
      chunks.length = 0;
      rejectCall(
        stream,
        STATUS.RESOURCE_EXHAUSTED,
        'The memory for messages is in use; retry later',
      );
    } else chunks.push(chunk);
  });
  stream.once('end', () => {
    cancel();
    if (stream.headersSent || stream.aborted || stream.destroyed) return;
    try {
      call.request = method.requestDeserialize(messageIn(Buffer.concat(chunks)));
    } catch (error) {
      const known = error instanceof CallError;
      const details = known ? error.message : 'Expected a message of this method';
      call.fail(known ? error.status : STATUS.INVALID_ARGUMENT, details);
      return;
    }
    method.handle(call);
  });
}

function messageIn(bytes: Buffer): Buffer {
  if (bytes.length >= PREFIX_BYTES && bytes[0] === 1) {
    throw new CallError(STATUS.UNIMPLEMENTED, 'Expected messages without compression');
  }
  const length = bytes.length < PREFIX_BYTES ? -1 : bytes.readUInt32BE(1);
  if (length > MAX_MESSAGE_BYTES) {
    throw new CallError(STATUS.RESOURCE_EXHAUSTED, tooLarge());
  }
  if (bytes[0] !== 0 || length !== bytes.length - PREFIX_BYTES) {
    throw new CallError(STATUS.INVALID_ARGUMENT, 'Expected exactly one message');
  }
  return bytes.subarray(PREFIX_BYTES);
}

const tooLarge = (): string => `Expected a message of at most ${MAX_MESSAGE_BYTES} bytes`;

function frameOf(message: Buffer): Buffer {
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, PREFIX_BYTES);
  return frame;
}

/** Returns percent-encoded UTF-8, as `grpc-message` requires; printable ASCII is unchanged. */
const percentEncoded = (text: string): string =>
  Buffer.from(text)
    .toString('latin1')
    .replace(/[^ -$&-~]/g, (each) => `%${each.charCodeAt(0).toString(16).padStart(2, '0')}`);
