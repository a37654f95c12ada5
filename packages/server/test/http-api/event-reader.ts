/** Reads a stream of server-sent events, for tests. */
import { get, type IncomingMessage } from 'node:http';

export interface ReadEvent {
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field of an event.
  readonly data: any;
}

export class EventReader {
  readonly events: ReadEvent[] = [];
  /** The text before the first event. */
  preamble = '';
  isClosed = false;
  readonly #response: IncomingMessage;
  #rest = '';
  #notify: () => void = () => {};

  private constructor(response: IncomingMessage) {
    this.#response = response;
    response.setEncoding('utf8');
    response.on('data', (piece: string) => this.#take(piece));
    response.on('error', () => {});
    response.on('close', () => {
      this.isClosed = true;
      this.#notify();
    });
  }

  /** Resolves when the response headers are received. */
  static open(url: string, path = '/v1/events', headers = {}): Promise<EventReader> {
    return new Promise((resolve, reject) => {
      const request = get(url + path, { agent: false, headers }, (response) =>
        resolve(new EventReader(response)),
      );
      request.on('error', reject);
    });
  }

  /** Resolves when `hello` is received. From then on, no denial is missed. */
  static async greeted(url: string, path?: string, headers = {}): Promise<EventReader> {
    const reader = await EventReader.open(url, path, headers);
    await reader.first('hello');
    return reader;
  }

  get status(): number {
    return this.#response.statusCode!;
  }

  get headers() {
    return this.#response.headers;
  }

  #take(piece: string): void {
    const blocks = (this.#rest + piece).split('\n\n');
    this.#rest = blocks.pop()!;
    for (const block of blocks) {
      const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      if (event === undefined) this.preamble += block;
      else this.events.push({ event, data: JSON.parse(data) });
    }
    this.#notify();
  }

  /** Resolves when `isEnough` returns true. Rejects if the stream closes before. */
  async until(isEnough: () => boolean): Promise<void> {
    while (!isEnough()) {
      if (this.isClosed) throw new Error('the stream was closed');
      await new Promise<void>((resolve) => {
        this.#notify = resolve;
      });
    }
  }

  of(event: string) {
    return this.events.filter((each) => each.event === event).map(({ data }) => data);
  }

  get ticks() {
    return this.of('tick');
  }

  /** All received denials. */
  get denials() {
    return this.ticks.flatMap(({ denials }) => denials);
  }

  async first(event: string) {
    await this.until(() => this.of(event).length > 0);
    return this.of(event)[0];
  }

  /** Resolves to the tick of the next second that has not begun yet. */
  async nextTick() {
    const count = this.ticks.length;
    await this.until(() => this.ticks.length > count + 1);
    return this.ticks[count + 1];
  }

  async closed(): Promise<void> {
    await this.until(() => this.isClosed).catch(() => {});
  }

  close(): void {
    this.#response.destroy();
  }
}

/** Returns the sum of a field over all ticks, in total or for one policy. */
export function sumOf(ticks: EventReader['ticks'], field: string, name?: string): number {
  const counts = ticks.flatMap(({ total, policies }) =>
    name === undefined ? [total] : policies.filter((each: { name: string }) => each.name === name),
  );
  return counts.reduce((sum, each) => sum + each[field], 0);
}
