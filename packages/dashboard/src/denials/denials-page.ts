/** To be drawn. */
import { html } from 'lit-html';
import type { PageMaker } from '../page.ts';

export const denialsPage: PageMaker = () => ({
  title: 'Denials',
  view: () => html`<h1>Denials</h1>`,
  moved: () => {},
  leave: () => {},
});
