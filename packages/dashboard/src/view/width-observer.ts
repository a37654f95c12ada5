/** Observes the width of an element, for drawings whose coordinates are pixels. */
export class WidthObserver {
  /** Width in CSS pixels; 0 until the browser has laid out the element. */
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

  /**
   * Callback for the `ref` directive. All renders pass the same function, because lit-html calls a
   * callback again if it is another function than before.
   */
  readonly observe = (element: Element | undefined): void => {
    this.#observer.disconnect();
    if (element !== undefined) this.#observer.observe(element);
  };
}
