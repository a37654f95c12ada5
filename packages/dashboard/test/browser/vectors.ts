/** Runs the vectors in a browser, and converts them to lab addresses. */
import { readdirSync, readFileSync } from 'node:fs';
import { rolldown } from 'rolldown';
import { parseVectors, type VectorCase } from 'sluice/testing';

const file = (path: string): string => new URL(`../../../${path}`, import.meta.url).pathname;
export const text = readFileSync(file('sluice/test/vectors/decisions.json'), 'utf8');
export const { cases } = parseVectors(text);

export const assets = '/dashboard/assets/';

/** The built entry file of the engine. */
export const engine = readdirSync(file('dashboard/dist/assets')).find((name) =>
  /^lab-engine-.*\.js$/.test(name),
)!;

/** The chunk that the entry imports. */
export function chunkOfEngine(): string {
  const source = readFileSync(file(`dashboard/dist/assets/${engine}`), 'utf8');
  return /from ?"\.\/([^"]+)"/.exec(source)![1];
}

/** Bundles the vector runner against the served engine. */
export async function runner(): Promise<string> {
  const bundle = await rolldown({
    input: file('sluice/src/testing/vectors.ts'),
    plugins: [
      {
        name: 'served-engine',
        resolveId: (id) =>
          /\/(?:clock|limiter)\.ts$/.test(id) ? { id: assets + engine, external: true } : null,
      },
    ],
  });
  const { output } = await bundle.generate({ format: 'es' });
  await bundle.close();
  return output[0].code;
}

/** The vectors that the lab can represent: checks of one key and policy in order of time. */
export const forLab = cases.filter(
  ({ policies, steps }) =>
    policies.length === 1 &&
    steps.every(({ op }) => op === 'check' || op === 'peek') &&
    steps.every(({ at }, number) => number === 0 || at >= steps[number - 1].at),
);

export function addressOf({ policies: [policy], steps }: VectorCase): string {
  if ('leaseMs' in policy) throw new TypeError('Expected a policy with a window');
  const checks = steps.filter(({ op }) => op === 'check');
  const times = checks.map(({ at, cost = 1 }, number) => {
    const since = at - (number === 0 ? checks[0].at : checks[number - 1].at);
    return `${since}.${cost}`;
  });
  const query = new URLSearchParams({
    ...{ traffic: 'typed', start: String(checks[0].at), times: times.join('_') },
    ...{ limit: String(policy.limit), window: `${policy.windowMs}ms` },
    algorithms: policy.algorithm ?? 'sliding-log',
    ...(policy.burst !== undefined && { burst: String(policy.burst) }),
    ...(policy.buckets !== undefined && { buckets: String(policy.buckets) }),
  });
  return `#/lab?${query}`;
}
