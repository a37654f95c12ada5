/** To be drawn. */
import { html } from 'lit-html';
import type { PageMaker } from '../page.ts';

export const keyPage: PageMaker = () => ({
  title: 'Key',
  view: () => html`<h1>Key</h1>`,
  moved: () => {},
  leave: () => {},
});
