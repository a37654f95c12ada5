/** To be drawn. */
import { html } from 'lit-html';
import type { PageMaker } from '../page.ts';

export const labPage: PageMaker = () => ({
  title: 'Lab',
  view: () => html`<h1>Lab</h1>`,
  moved: () => {},
  leave: () => {},
});
