/** Accessibility violations found by axe. */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const source = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface Violation {
  readonly id: string;
  readonly impact: string;
  readonly nodes: readonly {
    readonly target: readonly string[];
    readonly failureSummary: string;
  }[];
}

export interface Rules {
  /** The rules to check (default: all). */
  readonly only?: readonly string[];
  /** Rules to omit. */
  readonly without?: readonly string[];
}

/** Serious and critical violations. */
export async function barriersIn(page: Page, rules: Rules = {}): Promise<string[]> {
  const { only, without = [] } = rules;
  // Evaluated, since the page's CSP blocks injected script tags.
  if (!(await page.evaluate(() => 'axe' in window))) await page.evaluate(source);
  const options = {
    resultTypes: ['violations'],
    preload: false,
    rules: Object.fromEntries(without.map((rule) => [rule, { enabled: false }])),
    ...(only !== undefined && { runOnly: { type: 'rule', values: only } }),
  };
  const violations = (await page.evaluate(
    `axe.run(document, ${JSON.stringify(options)}).then(({ violations }) => violations)`,
  )) as Violation[];
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id} ${target.join(' ')}: ${failureSummary}`),
    );
}
