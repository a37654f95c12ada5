/** The definition of a policy. */
import { html, nothing, type TemplateResult } from 'lit-html';
import { algorithmInfo } from 'sluice/engine';
import type { PolicyDefinition } from '../api/types.ts';
import { countText, windowText } from '../view/format.ts';
import { deniesAll } from '../view/policy-text.ts';

const fact = (name: string, value: unknown, more?: string): TemplateResult =>
  html`<div>
    <dt>${name}</dt>
    <dd>${value} ${more === undefined ? nothing : html`<span class="dim">${more}</span>`}</dd>
  </div>`;

export function definitionCard(policy: PolicyDefinition): TemplateResult {
  const { limit, windowMs } = policy;
  return html`<section class="card" aria-labelledby="definition-title">
    <h2 id="definition-title">Definition</h2>
    <dl class="facts">
      ${fact('Limit', countText(limit))} ${fact('Window', windowText(windowMs))}
      ${deniesAll(policy) ? nothing : decisionFacts(policy)}
    </dl>
  </section>`;
}

/** What a store needs to decide. */
function decisionFacts(policy: PolicyDefinition): TemplateResult {
  const { windowMs, algorithm, burst, buckets, onFailure } = policy;
  const costs = Object.entries(policy.costs);
  return html`${fact('Algorithm', algorithm, algorithmInfo[algorithm].summary)}
      ${burst === undefined ? nothing : fact('Burst', countText(burst), 'largest burst')}
      ${
        buckets === undefined
          ? nothing
          : fact('Buckets', countText(buckets), `of ${windowText(Math.ceil(windowMs / buckets))}`)
      }
      ${fact('Costs', costs.length === 0 ? 'default 1' : costList(costs))}
      ${fact('On store failure', onFailure ?? 'service default')}
      ${fact('Overrides', countText(policy.overrides))}`;
}

const costList = (costs: readonly [string, number][]): TemplateResult => html`<ul class="plain">
  ${costs.map(([name, cost]) => html`<li><code>${name}</code> ${countText(cost)}</li>`)}
</ul>`;
