/** A query that is repeated when its result may have changed. */
export class PolledQuery<T> {
  /** The newest result; undefined before the first. */
  value: T | undefined = undefined;
  /** Why the last request failed. */
  problem: Error | undefined = undefined;
  readonly #fetch: () => Promise<T>;
  readonly #redraw: () => void;
  #requests = 0;
  #newest: Promise<void> = Promise.resolve();

  constructor(fetch: () => Promise<T>, redraw: () => void) {
    this.#fetch = fetch;
    this.#redraw = redraw;
  }

  /** Like `refresh`, without a redraw: for numbers that the next tick redraws anyway. */
  refreshQuietly(): Promise<void> {
    return this.#refresh(this.value === undefined);
  }

  /** Resolves with the newest request: the result of an older one is discarded. */
  refresh(): Promise<void> {
    return this.#refresh(true);
  }

  #refresh(isDrawn: boolean): Promise<void> {
    this.#newest = this.#run(isDrawn);
    return this.#newest;
  }

  async #run(isDrawn: boolean): Promise<void> {
    const request = ++this.#requests;
    const result = await this.#fetch().then(
      (value) => ({ value, problem: undefined }),
      (problem: Error) => ({ value: this.value, problem }),
    );
    if (request !== this.#requests) return this.#newest;
    this.value = result.value;
    this.problem = result.problem;
    if (isDrawn) this.#redraw();
  }

  /** Discards the pending request. */
  cancel(): void {
    this.#requests++;
    this.#newest = Promise.resolve();
  }
}
