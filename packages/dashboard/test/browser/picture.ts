/** What is drawn, as something that can be compared. */
import type { Locator } from 'playwright-core';

export interface Picture {
  /** The same for the same pixels. */
  readonly digest: number;
  /** How many different ones there are; one of a canvas that nothing was drawn on. */
  readonly colours: number;
}

export const picture = (canvas: Locator): Promise<Picture> =>
  canvas.evaluate((element) => {
    const drawn = element as HTMLCanvasElement;
    const { width, height } = drawn;
    // A copy, as a canvas that is read becomes one that is drawn otherwise.
    const context = new OffscreenCanvas(width, height).getContext('2d')!;
    context.drawImage(drawn, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    let digest = 0;
    for (const pixel of pixels) digest = (Math.imul(digest, 31) + pixel) | 0;
    return { digest, colours: new Set(pixels).size };
  });
