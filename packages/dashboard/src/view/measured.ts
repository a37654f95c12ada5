/** Tracks the width of an element, for drawings in pixels. */
export class Measured {
  /** 0 until measured. */
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

  /** For `ref`. A stable function, so that lit-html does not reattach it on each render. */
  readonly element = (element: Element | undefined): void => {
    this.#observer.disconnect();
    if (element !== undefined) this.#observer.observe(element);
  };
}
