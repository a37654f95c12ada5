/** Digest of a canvas, to compare drawings. */
import type { Locator } from 'playwright-core';

export interface Picture {
  /** Equal for equal pixels. */
  readonly digest: number;
  /** Number of different colours; 1 for an empty canvas. */
  readonly colours: number;
}

export const picture = (canvas: Locator): Promise<Picture> =>
  canvas.evaluate((element) => {
    const drawn = element as HTMLCanvasElement;
    const { width, height } = drawn;
    // A copy: reading a canvas switches it to another rendering mode.
    const context = new OffscreenCanvas(width, height).getContext('2d')!;
    context.drawImage(drawn, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    let digest = 0;
    for (const pixel of pixels) digest = (Math.imul(digest, 31) + pixel) | 0;
    return { digest, colours: new Set(pixels).size };
  });
