/** To be drawn. */
import { html } from 'lit-html';
import type { PageMaker } from '../page.ts';

export const policyPage: PageMaker = () => ({
  title: 'Policy',
  view: () => html`<h1>Policy</h1>`,
  moved: () => {},
  leave: () => {},
});
