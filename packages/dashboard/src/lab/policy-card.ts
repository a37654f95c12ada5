/** Card with the policy of the lab as a configuration file that the user can copy. */
import { html, type TemplateResult } from 'lit-html';
import { live } from 'lit-html/directives/live.js';
import { windowAlgorithmNames } from 'sluice/engine';
import type { WindowAlgorithmName } from '../api/types.ts';
import { policyFile } from './policy-file.ts';
import type { LabSettings } from './settings.ts';

export interface PolicyActions {
  choose(algorithm: WindowAlgorithmName): void;
  copy(text: string, what: string): void;
}

export function policyCard(settings: LabSettings, actions: PolicyActions): TemplateResult {
  const text = policyFile(settings);
  const chosen = (event: Event): void =>
    actions.choose((event.target as HTMLSelectElement).value as WindowAlgorithmName);
  return html`<section class="card" aria-labelledby="policy-title">
    <h2 id="policy-title">Policy file</h2>
    <div class="row">
      <label for="lab-policy">Algorithm</label>
      <select id="lab-policy" .value=${live(settings.policy)} @change=${chosen}>
        ${windowAlgorithmNames.map(
          (name) =>
            html`<option value=${name} ?selected=${name === settings.policy}>${name}</option>`,
        )}
      </select>
      <button type="button" class="quiet" @click=${() => actions.copy(text, 'Policy')}>
        Copy policy as YAML
      </button>
    </div>
    <pre class="policy-file" tabindex="0" aria-label="The policy as YAML"><code>${text}</code></pre>
  </section>`;
}
