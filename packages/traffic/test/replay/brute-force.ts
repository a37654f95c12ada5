/**
 * Reference implementation of the algorithms by brute force: keeps every admission of a client, and
 * each decision reads all of them. Shares no code with the engine. An admission of cost n is kept n
 * times.
 */

export interface BruteRequest {
  readonly timeMs: number;
  readonly client: string;
  readonly cost?: number | undefined;
}

export interface BrutePolicy {
  readonly name: string;
  readonly algorithm: string;
  readonly limit: number;
  readonly windowMs: number;
  readonly buckets?: number;
  readonly burst?: number;
  readonly shadow?: boolean;
}

/** Returns whether a cost fits at `now`, after the given admissions. */
export function fits(
  policy: BrutePolicy,
  admitted: readonly number[],
  now: number,
  cost = 1,
): boolean {
  const { algorithm, limit: L, windowMs: W, buckets = 60, burst = L } = policy;
  if (algorithm === 'sliding-log') {
    return admitted.filter((t) => t > now - W).length + cost <= L;
  }
  if (algorithm === 'fixed-window') {
    const w = Math.floor(now / W);
    return admitted.filter((t) => Math.floor(t / W) === w).length + cost <= L;
  }
  if (algorithm === 'sliding-counter') {
    const w = Math.floor(now / W);
    const cur = admitted.filter((t) => Math.floor(t / W) === w).length;
    const prev = admitted.filter((t) => Math.floor(t / W) === w - 1).length;
    return prev * (W - (now - w * W)) + (cur + cost) * W <= L * W;
  }
  if (algorithm === 'sliding-buckets') {
    const b = Math.ceil(W / Math.min(buckets, W));
    return admitted.filter((t) => (Math.floor(t / b) + 1) * b - 1 > now - W).length + cost <= L;
  }
  if (algorithm === 'token-bucket') {
    let level = burst * W;
    let last = 0;
    for (const t of admitted) {
      level = Math.min(burst * W, level + (t - last) * L) - W;
      last = t;
    }
    return Math.min(burst * W, level + (now - last) * L) >= cost * W;
  }
  throw new Error(`Unknown algorithm: ${algorithm}`);
}

export interface BruteClient {
  requests: number;
  denied: number;
  firstDeniedMs: number | undefined;
  /** Denials and shadow denials by policy. */
  readonly byPolicy: Map<string, number>;
}

export interface BruteResult {
  readonly clients: ReadonlyMap<string, BruteClient>;
  /** Whether each request passed, in order. */
  readonly passed: readonly boolean[];
}

/** Decides all requests by all policies, with counters by client. */
export function bruteForce(
  requests: readonly BruteRequest[],
  policies: readonly BrutePolicy[],
): BruteResult {
  const clients = new Map<string, BruteClient>();
  const admissions = new Map<string, number[]>();
  const passed = requests.map(({ timeMs, client, cost = 1 }) => {
    let counts = clients.get(client);
    if (counts === undefined) {
      counts = { requests: 0, denied: 0, firstDeniedMs: undefined, byPolicy: new Map() };
      clients.set(client, counts);
    }
    counts.requests++;
    const own = policies.map((policy) => {
      const name = `${policy.name} ${client}`;
      const admitted = admissions.get(name) ?? [];
      admissions.set(name, admitted);
      return { policy, admitted, fits: fits(policy, admitted, timeMs, cost) };
    });
    const enforced = own.filter(({ policy }) => !policy.shadow);
    const isDenied = enforced.some((each) => !each.fits);
    // A cost above a limit is denied by these limits only; the others are not checked.
    const aboveLimit = enforced.filter(({ policy }) => cost > (policy.burst ?? policy.limit));
    const checked = aboveLimit.length > 0 ? aboveLimit : isDenied ? enforced : own;
    for (const each of checked) {
      const { name } = each.policy;
      if (!each.fits) counts.byPolicy.set(name, (counts.byPolicy.get(name) ?? 0) + 1);
      else if (!isDenied) each.admitted.push(...new Array<number>(cost).fill(timeMs));
    }
    if (isDenied) {
      counts.denied++;
      counts.firstDeniedMs ??= timeMs;
    }
    return !isDenied;
  });
  return { clients, passed };
}
