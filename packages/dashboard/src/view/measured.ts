/** How wide an element is, for pictures that are drawn in pixels. */
export class Measured {
  /** 0 until it is known. */
  width = 0;
  readonly #redraw: () => void;
  readonly #observer = new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (width === this.width) return;
    this.width = width;
    this.#redraw();
  });

  constructor(redraw: () => void) {
    this.#redraw = redraw;
  }

  /** For `ref`: it is always the same, so that lit does not take it for another. */
  readonly element = (element: Element | undefined): void => {
    this.#observer.disconnect();
    if (element !== undefined) this.#observer.observe(element);
  };
}
