/** Explains how a running service would decide the next call of a key. */
import type { AlgorithmName } from 'sluice';
import { optionOf } from 'sluice/engine';
import type { Explanation } from 'sluice-traffic';
import { type Client, pathSegment } from '../client.ts';
import { decisionOf } from '../decision.ts';
import { Failure } from '../output.ts';

interface KeyBody {
  readonly algorithm: AlgorithmName;
  readonly limit: number;
  readonly windowMs: number;
  readonly used: number;
  readonly cells: readonly number[];
  readonly entries: Explanation['entries'];
  readonly entryCount?: number;
  readonly override?: { readonly limit: number };
}

interface PolicyBody {
  readonly limit: number;
  readonly buckets?: number;
}

/** Peeks with a cost of 1. Resolves to the decision and the state of the key. */
export async function explainLive(
  client: Client,
  policy: string,
  key: string,
): Promise<Explanation> {
  const peeked = await client.request('POST', '/v1/peek', { policy, key, cost: 1 });
  const decision = decisionOf(peeked) as Partial<Explanation>;
  const [policyPart, keyPart] = [policy, key].map(pathSegment);
  const { body } = await client.request('GET', `/v1/keys/${policyPart}/${keyPart}`);
  const keyBody = body as KeyBody;
  const definition = (await client.request('GET', `/v1/policies/${policyPart}`)).body as PolicyBody;
  const { atMs, allowed, remaining, retryAfterMs, resetAfterMs } = decision;
  if (atMs === undefined || !Array.isArray(keyBody.entries)) {
    throw new Failure(
      `Expected a decision and a key from the service at ${client.url}, got another response`,
    );
  }
  const { windowMs, limit: capacity } = keyBody;
  const hasBurst = optionOf(keyBody.algorithm) === 'burst';
  return {
    kind: 'explain',
    ...{ policy, key, algorithm: keyBody.algorithm, capacity, windowMs, atMs, cost: 1 },
    limit: hasBurst ? (keyBody.override?.limit ?? definition.limit) : capacity,
    bucketMs: Math.ceil(windowMs / (definition.buckets ?? 1)),
    allowed: allowed!,
    remaining: remaining!,
    retryAfterMs: retryAfterMs!,
    resetAfterMs: resetAfterMs!,
    inLog: false,
    ...{ cells: keyBody.cells, used: keyBody.used, entries: keyBody.entries, requests: [] },
    ...(keyBody.entryCount !== undefined && { entryCount: keyBody.entryCount }),
  };
}
