/** What comparing comes to, as a table. */
import { html, type TemplateResult } from 'lit-html';
import { countText } from '../view/format.ts';
import { sinceText } from './lab-text.ts';
import type { LabResult } from './run.ts';

export function summaryTable({ lanes, traffic }: LabResult): TemplateResult {
  const since = (call: number | undefined): string =>
    call === undefined ? 'none' : sinceText(traffic.calls[call].atMs - traffic.startMs);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="The algorithms compared">
    <table class="summary">
      <caption class="unseen">What each algorithm lets through of the same calls</caption>
      <thead>
        <tr>
          <th scope="col">Algorithm</th>
          <th scope="col" class="number">Admitted</th>
          <th scope="col" class="number">Denied</th>
          <th scope="col" class="number" title="The most let through in any window of that length">
            Worst true window
          </th>
          <th scope="col" class="number">× limit</th>
          <th scope="col" class="number">First denial</th>
          <th scope="col" class="number" title="Let through, and denied by the exact log">
            False admits
          </th>
          <th scope="col" class="number" title="Denied, and let through by the exact log">
            False denials
          </th>
        </tr>
      </thead>
      <tbody>
        ${lanes.map(
          (lane) => html`<tr>
            <th scope="row">${lane.algorithm}</th>
            <td class="number">${countText(lane.admitted)}</td>
            <td class="number">${countText(lane.denied)}</td>
            <td class="number">${countText(lane.fullest?.cost ?? 0)}</td>
            <td class="number">${(lane.fullest?.multiple ?? 0).toFixed(2)}</td>
            <td class="number">${since(lane.firstDenial)}</td>
            <td class="number">${countText(lane.falseAdmits)}</td>
            <td class="number">${countText(lane.falseDenials)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}
