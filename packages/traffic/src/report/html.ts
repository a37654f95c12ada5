/**
 * Builds HTML. Strings are escaped; only `Html` values are inserted as markup.
 */
import { visible } from '../format.ts';

export class Html {
  constructor(readonly text: string) {}
}

export type Part = Html | string | number | false | undefined | readonly Part[];
export type Attributes = Readonly<Record<string, Html | string | number | false | undefined>>;

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' },
};

const MAX_TEXT_LENGTH = 300;

/** Truncates and escapes untrusted text. */
function escaped(text: string): string {
  const cut = text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH - 1)}…` : text;
  return visible(cut).replace(/[&<>"']/g, (each) => ESCAPES[each]);
}

function textOf(part: Part): string {
  if (part === undefined || part === false) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'string') return escaped(part);
  return typeof part === 'number' ? String(part) : part.map(textOf).join('');
}

/** Template tag that escapes its values: `html`<b>${name}</b>``. */
export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Html =>
  new Html(strings.map((text, at) => (at === 0 ? '' : textOf(parts[at - 1])) + text).join(''));

const start = (name: string, attributes: Attributes): string =>
  `<${name}${Object.entries(attributes)
    .filter(([, value]) => value !== undefined && value !== false && value !== '')
    .map(([key, value]) => ` ${key}="${textOf(value)}"`)
    .join('')}`;

/** Returns an element with content. */
export const tag = (name: string, attributes: Attributes, ...parts: readonly Part[]): Html =>
  new Html(`${start(name, attributes)}>${textOf(parts)}</${name}>`);

/** Returns an SVG element without content. */
export const shape = (name: string, attributes: Attributes): Html =>
  new Html(`${start(name, attributes)}/>`);
