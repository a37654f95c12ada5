/** Card with the definition of a policy. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { algorithmInfo, isConcurrency } from 'sluice/engine';
import type { PolicyDefinition } from '../api/types.ts';
import { countText, windowText } from '../view/format.ts';
import { blockText, deniesAll } from '../view/policy-text.ts';

const fact = (name: string, value: unknown, more?: string): TemplateResult =>
  html`<div>
    <dt>${name}</dt>
    <dd>${value} ${more === undefined ? nothing : html`<span class="dim">${more}</span>`}</dd>
  </div>`;

export function definitionCard(policy: PolicyDefinition): TemplateResult {
  const { limit, windowMs } = policy;
  const isHeld = isConcurrency(policy);
  return html`<section class="card" aria-labelledby="definition-title">
    <h2 id="definition-title">Definition</h2>
    <dl class="facts">
      ${fact('Limit', countText(limit), isHeld ? 'at the same time' : undefined)}
      ${fact(isHeld ? 'Lease' : 'Window', windowText(windowMs))}
      ${deniesAll(policy) ? nothing : decisionFacts(policy)}
    </dl>
  </section>`;
}

/** Lists how the policy decides: algorithm, block, costs, failure handling and overrides. */
function decisionFacts(policy: PolicyDefinition): TemplateResult {
  const { windowMs, algorithm, burst, buckets, block, onFailure } = policy;
  const costs = Object.entries(policy.costs);
  return html`${fact(
    'Algorithm',
    html`${algorithm}<div class="dim">${algorithmInfo[algorithm].summary}</div>`,
  )}
      ${burst === undefined ? nothing : fact('Burst', countText(burst), 'tokens')}
      ${
        buckets === undefined
          ? nothing
          : fact('Buckets', countText(buckets), `of ${windowText(Math.ceil(windowMs / buckets))}`)
      }
      ${block === undefined ? nothing : fact('Block', blockText(block), 'after a denial')}
      ${fact('Costs', costs.length === 0 ? '1 per call' : costList(costs))}
      ${fact('On store failure', onFailure ?? 'service default')}
      ${fact('Overrides', countText(policy.overrides))}`;
}

const costList = (costs: readonly [string, number][]): TemplateResult => html`<ul class="plain">
  ${costs.map(([name, cost]) => html`<li><code>${name}</code> ${countText(cost)}</li>`)}
</ul>`;
