/** Finds layout faults: overflow, clipped text, overlapping and small controls. */
import type { Page } from 'playwright-core';

export interface LayoutFaults {
  /** Pixels by which the page is wider than the window. */
  readonly wider: number;
  /** Clipped texts without a tooltip. */
  readonly clipped: readonly string[];
  /** Pairs of overlapping controls. */
  readonly overlapping: readonly string[];
  /** Buttons with more lines than words. */
  readonly squeezed: readonly string[];
  /** Controls too small for touch, on touch devices. */
  readonly small: readonly string[];
}

export const NO_FAULTS: LayoutFaults = {
  wider: 0,
  clipped: [],
  overlapping: [],
  squeezed: [],
  small: [],
};

export const faultsOf = (page: Page): Promise<LayoutFaults> =>
  page.evaluate((viewport) => {
    const root = document.querySelector('dialog[open]') ?? document.body;
    const isUnseen = (element: Element): boolean =>
      element.closest('.unseen, .skip, [hidden]') !== null ||
      getComputedStyle(element).clipPath !== 'none' ||
      !element.checkVisibility();
    const hides = (element: Element): boolean =>
      /hidden|clip/.test(getComputedStyle(element).overflowX);
    const scrolls = (element: Element): boolean =>
      /auto|scroll/.test(getComputedStyle(element).overflowX);
    const ancestors = (element: Element): Element[] => {
      const found: Element[] = [];
      for (let each = element.parentElement; each !== null; each = each.parentElement) {
        found.push(each);
      }
      return found;
    };
    const short = (element: Element): string => {
      const text = element.textContent!.replace(/\s+/g, ' ').trim();
      return `${element.tagName.toLowerCase()} ${text.slice(0, 40)}`;
    };

    const clipped = new Set<string>();
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const element = node.parentElement!;
      if (node.textContent!.trim() === '' || isUnseen(element)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const { left, right } = range.getBoundingClientRect();
      const chain = [element, ...ancestors(element)];
      // The tooltip shows the whole text.
      if (chain.some((each) => each.hasAttribute('title') && hides(each.parentElement!))) continue;
      const edge = chain.find((each) => hides(each) || each.matches('.card, dialog'));
      if (edge === undefined || edge.tagName === 'svg' || chain.some(scrolls)) continue;
      const box = edge.getBoundingClientRect();
      if (left < box.left - 1 || right > box.right + 1) clipped.add(short(element));
    }

    const controls = [
      ...root.querySelectorAll('a[href], button, input, select, textarea, summary, [role=slider]'),
    ].filter((element) => !isUnseen(element));
    /** The part visible within scrolling ancestors. */
    const boxOf = (element: Element) => {
      const { left, top, right, bottom } = element.getBoundingClientRect();
      const box = { left, top, right, bottom };
      for (const each of ancestors(element).filter(scrolls)) {
        const around = each.getBoundingClientRect();
        box.left = Math.max(box.left, around.left);
        box.right = Math.min(box.right, around.right);
        box.top = Math.max(box.top, around.top);
        box.bottom = Math.min(box.bottom, around.bottom);
      }
      return box;
    };
    const boxes = controls.map((element) => ({ element, box: boxOf(element) }));
    const overlapping = boxes.flatMap(({ element, box }, at) =>
      boxes
        .slice(at + 1)
        .filter(
          (other) =>
            !element.contains(other.element) &&
            Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left) > 1 &&
            Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top) > 1,
        )
        .map((other) => `${short(element)} / ${short(other.element)}`),
    );
    const linesOf = (element: Element): number => {
      const range = document.createRange();
      const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
      const tops: number[] = [];
      for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
        range.selectNodeContents(node);
        tops.push(...[...range.getClientRects()].map(({ top }) => top));
      }
      tops.sort((a, b) => a - b);
      return tops.filter((top, at) => at === 0 || top - tops[at - 1] > 8).length;
    };
    const squeezed = [...root.querySelectorAll('button, thead th, .badge')]
      .filter((element) => !isUnseen(element))
      .filter((element) => linesOf(element) > element.textContent!.trim().split(/[\s-]+/).length)
      .map(short);
    // Links in text and tables are exempt: they are as high as their line.
    const small = boxes
      .filter(({ element }) => /^(?:BUTTON|SELECT|INPUT|SUMMARY)$/.test(element.tagName))
      .filter(({ element }) => matchMedia('(pointer: coarse)').matches && isLow(element))
      .map(({ element }) => short(element));
    function isLow(element: Element): boolean {
      const target = element.closest('label') ?? element;
      return target.getBoundingClientRect().height < 24;
    }
    const { scrollWidth } = document.scrollingElement!;
    // Not `innerWidth`: on a phone, it grows with the page.
    const wider = Math.max(0, scrollWidth - viewport);
    return { wider, clipped: [...clipped], overlapping, squeezed, small };
  }, page.viewportSize()!.width);
