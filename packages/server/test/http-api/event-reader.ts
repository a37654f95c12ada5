/** Reads a stream of server-sent events, for tests. */
import { get, type IncomingMessage } from 'node:http';

export interface ReadEvent {
  readonly event: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came.
  readonly data: any;
}

export class EventReader {
  readonly events: ReadEvent[] = [];
  /** What came before the first event. */
  preamble = '';
  isClosed = false;
  readonly #answer: IncomingMessage;
  #rest = '';
  #heard: () => void = () => {};

  private constructor(answer: IncomingMessage) {
    this.#answer = answer;
    answer.setEncoding('utf8');
    answer.on('data', (piece: string) => this.#take(piece));
    answer.on('error', () => {});
    answer.on('close', () => {
      this.isClosed = true;
      this.#heard();
    });
  }

  /** Resolves when the head is there. */
  static open(url: string, path = '/v1/events', headers = {}): Promise<EventReader> {
    return new Promise((resolve, reject) => {
      const request = get(url + path, { agent: false, headers }, (answer) =>
        resolve(new EventReader(answer)),
      );
      request.on('error', reject);
    });
  }

  /** Resolves when it was greeted: from then on no denial is missed. */
  static async greeted(url: string, path?: string, headers = {}): Promise<EventReader> {
    const reader = await EventReader.open(url, path, headers);
    await reader.first('hello');
    return reader;
  }

  get status(): number {
    return this.#answer.statusCode!;
  }

  get headers() {
    return this.#answer.headers;
  }

  #take(piece: string): void {
    const blocks = (this.#rest + piece).split('\n\n');
    this.#rest = blocks.pop()!;
    for (const block of blocks) {
      const [, event, data] = /^event: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      if (event === undefined) this.preamble += block;
      else this.events.push({ event, data: JSON.parse(data) });
    }
    this.#heard();
  }

  /** Waits until the received events suffice; throws if the stream closes before. */
  async until(isEnough: () => boolean): Promise<void> {
    while (!isEnough()) {
      if (this.isClosed) throw new Error('the stream was closed');
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
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

  /** The next tick that is about a second that has not begun yet. */
  async nextTick() {
    const count = this.ticks.length;
    await this.until(() => this.ticks.length > count + 1);
    return this.ticks[count + 1];
  }

  async closed(): Promise<void> {
    await this.until(() => this.isClosed).catch(() => {});
  }

  close(): void {
    this.#answer.destroy();
  }
}

/** What ticks come to. */
export function sumOf(ticks: EventReader['ticks'], field: string, name?: string): number {
  const counts = ticks.flatMap(({ total, policies }) =>
    name === undefined ? [total] : policies.filter((each: { name: string }) => each.name === name),
  );
  return counts.reduce((sum, each) => sum + each[field], 0);
}
