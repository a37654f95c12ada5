/** Keys as text. Invisible characters are escaped, so that different keys look different. */
import { html, type TemplateResult } from 'lit-html';
import { visible, visibleParts } from 'sluice-traffic/format';

/** Renders a key. Highlights its escapes: a key may also contain the plain text `\u{202e}`. */
export const keyView = (key: string): readonly (TemplateResult | string)[] =>
  visibleParts(key).map(({ text, isEscape }) =>
    isEscape ? html`<span class="escape">${text}</span>` : text,
  );

/** Returns a key with escapes, for attributes and texts that are not HTML. */
export const keyText = visible;

/** Maximum length in messages, in characters. */
const MAX_LENGTH = 60;

/** Returns a key for messages, truncated to 60 characters. */
export function shortKeyText(key: string): string {
  const characters = [...key];
  return visible(
    characters.length <= MAX_LENGTH ? key : `${characters.slice(0, MAX_LENGTH).join('')}…`,
  );
}

/** Returns a value as JSON, with escapes for invisible characters. */
export const visibleJson = (value: unknown): string =>
  JSON.stringify(value).replace(
    /[\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\x7f-\x9f]/gu,
    (each) =>
      [...Array(each.length).keys()]
        .map((at) => `\\u${each.charCodeAt(at).toString(16).padStart(4, '0')}`)
        .join(''),
  );
