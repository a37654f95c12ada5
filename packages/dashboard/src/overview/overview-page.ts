/** To be drawn. */
import { html } from 'lit-html';
import type { PageMaker } from '../page.ts';

export const overviewPage: PageMaker = () => ({
  title: 'Overview',
  view: () => html`<h1>Overview</h1>`,
  moved: () => {},
  leave: () => {},
});
