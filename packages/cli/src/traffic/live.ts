/** A decision of a running service, with all that it says about how it came to it. */
import type { AlgorithmName } from 'sluice';
import type { Explanation } from 'sluice-traffic';
import type { Client } from '../client.ts';
import { decisionOf } from '../decision.ts';
import { Failure } from '../output.ts';

/** The parts of the service's answers that are needed. */
interface KeyAnswer {
  readonly algorithm: AlgorithmName;
  readonly limit: number;
  readonly windowMs: number;
  readonly used: number;
  readonly cells: readonly number[];
  readonly entries: Explanation['entries'];
  readonly entryCount?: number;
  readonly override?: { readonly limit: number };
}

interface PolicyAnswer {
  readonly limit: number;
  readonly buckets?: number;
}

/** Asks what a call would be told now; nothing counts. */
export async function explainLive(
  client: Client,
  policy: string,
  key: string,
): Promise<Explanation> {
  const asked = await client.ask('POST', '/v1/peek', { policy, key, cost: 1 });
  const decision = decisionOf(asked) as Partial<Explanation>;
  const [policyPart, keyPart] = [policy, key].map(segment);
  const { body } = await client.ask('GET', `/v1/keys/${policyPart}/${keyPart}`);
  const held = body as KeyAnswer;
  const definition = (await client.ask('GET', `/v1/policies/${policyPart}`)).body as PolicyAnswer;
  const { atMs, allowed, remaining, retryAfterMs, resetAfterMs } = decision;
  if (atMs === undefined || !Array.isArray(held.entries)) {
    throw new Failure('Expected a decision of the store and a key, got another answer');
  }
  const { windowMs, limit: capacity } = held;
  const isTokens = held.algorithm === 'token-bucket';
  return {
    kind: 'explain',
    ...{ policy, key, algorithm: held.algorithm, capacity, windowMs, atMs, cost: 1 },
    limit: isTokens ? (held.override?.limit ?? definition.limit) : capacity,
    bucketMs: Math.ceil(windowMs / (definition.buckets ?? 1)),
    allowed: allowed!,
    remaining: remaining!,
    retryAfterMs: retryAfterMs!,
    resetAfterMs: resetAfterMs!,
    wasAsked: false,
    ...{ cells: held.cells, used: held.used, entries: held.entries, requests: [] },
    ...(held.entryCount !== undefined && { entryCount: held.entryCount }),
  };
}

/** A path drops segments of dots, however they are encoded. */
function segment(text: string): string {
  if (!/^\.{0,2}$/.test(text)) return encodeURIComponent(text);
  throw new Failure(`Expected a name that can stand in a path, got \`${text}\``);
}
