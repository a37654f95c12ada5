/**
 * Markup that cannot be broken by what stands in it: whatever is put into a template or a tag is
 * text, unless it is markup that came out of one itself.
 */

export class Html {
  constructor(readonly text: string) {}
}

export type Part = Html | string | number | false | undefined | readonly Part[];
export type Attributes = Readonly<Record<string, Html | string | number | false | undefined>>;

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' },
};

/** What nobody sees, but what turns text around or ends it early. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

const MAX_TEXT_LENGTH = 300;

/** Nobody reads more of a text that came from elsewhere. */
function shown(text: string): string {
  const cut = text.length > MAX_TEXT_LENGTH ? `${text.slice(0, MAX_TEXT_LENGTH - 1)}…` : text;
  return cut
    .replace(UNSEEN, (each) => `\\u{${each.codePointAt(0)!.toString(16)}}`)
    .replace(/[&<>"']/g, (each) => ESCAPES[each]);
}

function textOf(part: Part): string {
  if (part === undefined || part === false) return '';
  if (part instanceof Html) return part.text;
  if (typeof part === 'string') return shown(part);
  return typeof part === 'number' ? String(part) : part.map(textOf).join('');
}

/** A template whose parts are text: `html`<b>${name}</b>``. */
export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Html =>
  new Html(strings.map((text, at) => (at === 0 ? '' : textOf(parts[at - 1])) + text).join(''));

const start = (name: string, attributes: Attributes): string =>
  `<${name}${Object.entries(attributes)
    .filter(([, value]) => value !== undefined && value !== false && value !== '')
    .map(([key, value]) => ` ${key}="${textOf(value)}"`)
    .join('')}`;

/** An element and what is in it. */
export const tag = (name: string, attributes: Attributes, ...parts: readonly Part[]): Html =>
  new Html(`${start(name, attributes)}>${textOf(parts)}</${name}>`);

/** An element of a picture, with nothing in it. */
export const shape = (name: string, attributes: Attributes): Html =>
  new Html(`${start(name, attributes)}/>`);
