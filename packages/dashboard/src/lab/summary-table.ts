/** Summary of all algorithms. */
import { html, type TemplateResult } from 'lit-html';
import { countText } from '../view/format.ts';
import { sinceText } from './lab-text.ts';
import type { LabResult } from './run.ts';

export function summaryTable({ lanes, traffic }: LabResult): TemplateResult {
  const since = (call: number | undefined): string =>
    call === undefined ? 'none' : sinceText(traffic.calls[call].atMs - traffic.startMs);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Summary">
    <table class="summary">
      <caption class="unseen">Decisions of each algorithm on the same calls</caption>
      <thead>
        <tr>
          <th scope="col">Algorithm</th>
          <th scope="col" class="number">Admitted</th>
          <th scope="col" class="number">Denied</th>
          <th scope="col" class="number" title="Highest cost admitted in any window">
            Fullest window
          </th>
          <th scope="col" class="number">× limit</th>
          <th scope="col" class="number">First denial</th>
          <th scope="col" class="number" title="Admitted, but denied by the exact sliding log">
            False admits
          </th>
          <th scope="col" class="number" title="Denied, but admitted by the exact sliding log">
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
            <td class="number">${countText(lane.fullest?.count ?? 0)}</td>
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
