/** Something that the service is asked for, and asked for again when it may have changed. */
export class PolledQuery<T> {
  /** The newest answer; undefined before the first. */
  value: T | undefined = undefined;
  /** Why there is no newer one. */
  problem: Error | undefined = undefined;
  readonly #ask: () => Promise<T>;
  readonly #redraw: () => void;
  #asked = 0;
  #newest: Promise<void> = Promise.resolve();

  constructor(ask: () => Promise<T>, redraw: () => void) {
    this.#ask = ask;
    this.#redraw = redraw;
  }

  /** As `refresh`, for numbers that are drawn with the next second anyway. */
  refreshQuietly(): Promise<void> {
    return this.#refresh(this.value === undefined);
  }

  /**
   * An answer that comes after a newer question was asked is not looked at: whoever waits for it
   * waits for the newer one.
   */
  refresh(): Promise<void> {
    return this.#refresh(true);
  }

  #refresh(isDrawn: boolean): Promise<void> {
    this.#newest = this.#answer(isDrawn);
    return this.#newest;
  }

  async #answer(isDrawn: boolean): Promise<void> {
    const asked = ++this.#asked;
    const answer = await this.#ask().then(
      (value) => ({ value, problem: undefined }),
      (problem: Error) => ({ value: this.value, problem }),
    );
    if (asked !== this.#asked) return this.#newest;
    this.value = answer.value;
    this.problem = answer.problem;
    if (isDrawn) this.#redraw();
  }

  /** Nobody wants to know any more. */
  leave(): void {
    this.#asked++;
    this.#newest = Promise.resolve();
  }
}
