/** The latest result of a request that pages repeat when the result may have changed. */
export class PolledQuery<T> {
  /** Result of the latest successful request; undefined until there is one. */
  value: T | undefined = undefined;
  /** Error of the latest request; undefined if it succeeded. */
  problem: Error | undefined = undefined;
  readonly #fetch: () => Promise<T>;
  readonly #redraw: () => void;
  #requests = 0;
  #latest: Promise<void> = Promise.resolve();

  /** Resolves when the latest request has ended. */
  get latest(): Promise<void> {
    return this.#latest;
  }

  constructor(fetch: () => Promise<T>, redraw: () => void) {
    this.#fetch = fetch;
    this.#redraw = redraw;
  }

  /**
   * Like `refresh`, but redraws only for the first result. Later results appear when the next event
   * of the stream causes a redraw.
   */
  refreshQuietly(): Promise<void> {
    return this.#refresh(this.value === undefined);
  }

  /**
   * Sends the request again and redraws. Discards the results of earlier requests; their promises
   * resolve together with the promise of the latest request.
   */
  refresh(): Promise<void> {
    return this.#refresh(true);
  }

  #refresh(redraws: boolean): Promise<void> {
    this.#latest = this.#run(redraws);
    return this.#latest;
  }

  async #run(redraws: boolean): Promise<void> {
    const request = ++this.#requests;
    const result = await this.#fetch().then(
      (value) => ({ value, problem: undefined }),
      (problem: Error) => ({ value: this.value, problem }),
    );
    if (request !== this.#requests) return this.#latest;
    this.value = result.value;
    this.problem = result.problem;
    if (redraws) this.#redraw();
  }

  /** Discards the result of a pending request. */
  cancel(): void {
    this.#requests++;
    this.#latest = Promise.resolve();
  }
}
