/** The page of a service that was watched: what each policy allowed and denied, and to whom. */
import { cellBar } from './bars.ts';
import { count, limitText, percent, wait, when } from './format.ts';
import { type Html, type Part, shape, tag } from './html.ts';
import { nameText, pageText, part, soft, type Tile, table, tiles } from './page.ts';
import { legend, niceEnd, number, pathData } from './scale.ts';
import { timeChart } from './time-chart.ts';

export interface WatchedPolicy {
  readonly name: string;
  /** Undefined for limits that come with requests, which no file names. */
  readonly limit: number | undefined;
  readonly windowMs: number | undefined;
  readonly algorithm: string | undefined;
  readonly shadow: boolean;
  /** Since the service started; of a policy in shadow, what it would have done. */
  readonly allowed: number;
  readonly denied: number;
  /** While it was watched. Undefined until it has been looked at twice. */
  readonly allowedPerSecond: number | undefined;
  readonly deniedPerSecond: number | undefined;
  /** The same between each two looks, the oldest first. */
  readonly rates: { readonly allowed: readonly number[]; readonly denied: readonly number[] };
}

export interface WatchedKey {
  readonly policy: string;
  readonly key: string;
  readonly atLeast: number;
  readonly atMost: number;
}

export interface TopResult {
  readonly kind: 'top';
  readonly url: string;
  /** The first look and the last. */
  readonly firstMs: number;
  readonly atMs: number;
  readonly ready: boolean;
  readonly draining: boolean;
  readonly storeUp: boolean;
  readonly breaker: string | undefined;
  readonly configOk: boolean;
  readonly version: string | undefined;
  /** Only the embedded store knows. */
  readonly keys: number | undefined;
  readonly evicted: number;
  /** Checks that the store did not decide. */
  readonly degraded: number;
  /** The busiest first. */
  readonly policies: readonly WatchedPolicy[];
  readonly mostDenied: readonly WatchedKey[];
  readonly mostAllowed: readonly WatchedKey[];
}

const RATE = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });
const rate = (value: number | undefined): string =>
  value === undefined ? '-' : RATE.format(value);

const sumOf = (values: readonly (number | undefined)[]): number =>
  values.reduce<number>((sum, value) => sum + (value ?? 0), 0);

/** What passes a policy in shadow is not denied, so it counts for neither. */
const enforced = ({ policies }: TopResult): readonly WatchedPolicy[] =>
  policies.filter(({ shadow }) => !shadow);

function headline(result: TopResult): string {
  if (!result.ready)
    return result.draining ? 'The service is stopping' : 'The service is not ready';
  const [allowed, denied] = [
    sumOf(enforced(result).map((each) => each.allowedPerSecond)),
    sumOf(enforced(result).map((each) => each.deniedPerSecond)),
  ];
  return `${rate(allowed)} allowed and ${rate(denied)} denied a second`;
}

function healthTiles(result: TopResult): Html {
  const { ready, draining, storeUp, breaker, configOk, keys, evicted, degraded } = result;
  const state = ready ? 'ready' : draining ? 'stopping' : 'not ready';
  const all: Tile[] = [
    { id: 'ready', value: state, name: 'the service' },
    {
      id: 'store',
      value: storeUp ? 'up' : 'away',
      name: breaker === undefined ? 'the store' : `the store, breaker ${breaker}`,
    },
    { id: 'files', value: configOk ? 'fine' : 'wrong', name: 'its files' },
    { id: 'degraded', value: count(degraded), name: 'checks that the store did not decide' },
  ];
  if (keys !== undefined) {
    all.push({ id: 'keys', value: count(keys), name: `keys held, ${count(evicted)} evicted` });
  }
  return tiles(all);
}

/** Rates of all policies together, look by look. */
function timePart(result: TopResult): Part {
  const all = enforced(result);
  const steps = Math.max(0, ...all.map(({ rates }) => rates.allowed.length));
  if (steps < 2) return undefined;
  const { firstMs, atMs } = result;
  // A policy that came while it was watched has fewer, and they are the newest.
  const at = (rates: readonly number[], step: number): number =>
    rates[step - (steps - rates.length)] ?? 0;
  const series = (name: 'allowed' | 'denied'): readonly number[] =>
    Array.from({ length: steps }, (_, step) =>
      sumOf(all.map(({ rates }) => at(rates[name], step))),
    );
  const chart = timeChart({
    id: 'over-time',
    title: 'Decisions a second',
    data: {
      startMs: firstMs,
      bucketMs: Math.round((atMs - firstMs) / steps),
      series: { allowed: series('allowed'), denied: series('denied') },
    },
    layers: [
      { css: 'denied', of: (rates) => rates.denied },
      { css: 'allowed', of: (rates) => rates.allowed },
    ],
    tooltip: ({ allowed, denied }) => `${rate(allowed)} allowed, ${rate(denied)} denied a second`,
  });
  const names = legend([
    ['allowed', 'allowed'],
    ['denied', 'denied'],
  ]);
  return part('Decisions a second', 'Of all policies that are not in shadow.', names, chart);
}

const SPARK = 26;

/** Steps that fill a cell, the denied below and the allowed upon them. */
function spark({ rates, shadow }: WatchedPolicy): Part {
  const { allowed, denied } = rates;
  if (allowed.length < 2) return undefined;
  const sums = allowed.map((value, at) => value + denied[at]);
  const end = niceEnd(Math.max(...sums));
  const steps = (values: readonly number[]): Html => {
    const path = values.map(
      (value, at) => `${at === 0 ? 'M' : 'L'}${at} ${number(SPARK * (1 - value / end))}H${at + 1}`,
    );
    return pathData([...path, `V${SPARK}H0Z`]);
  };
  const size = { viewBox: `0 0 ${allowed.length} ${SPARK}`, preserveAspectRatio: 'none' };
  const label = `at most ${rate(Math.max(...sums))} a second`;
  return tag(
    'svg',
    { ...size, height: SPARK, role: 'img', 'aria-label': label },
    tag('title', {}, label),
    shape('path', { class: 'allowed', d: steps(sums) }),
    shape('path', { class: shadow ? 'shadow' : 'denied', d: steps(denied) }),
    shape('rect', { class: 'track', y: SPARK - 0.5, width: allowed.length, height: 0.5 }),
  );
}

function policyPart({ policies, firstMs, atMs }: TopResult): Html {
  const rows = policies.map((policy) => {
    const { name, limit, windowMs, algorithm, shadow, allowed, denied } = policy;
    return [
      [nameText(name), shadow && [' ', soft('in shadow')]],
      spark(policy),
      rate(policy.allowedPerSecond),
      rate(policy.deniedPerSecond),
      limit === undefined || windowMs === undefined ? '' : limitText({ limit, windowMs }),
      algorithm,
      count(allowed),
      count(denied),
      percent(denied, allowed + denied),
    ];
  });
  const columns = [
    { heading: 'policy', kind: 'name' },
    { heading: 'while watched', kind: 'bars' },
    { heading: 'allowed/s', kind: 'number' },
    { heading: 'denied/s', kind: 'number' },
    { heading: 'limit', kind: 'time' },
    { heading: 'algorithm', kind: 'time' },
    { heading: 'allowed', kind: 'number' },
    { heading: 'denied', kind: 'number' },
    { heading: 'part', kind: 'number' },
  ] as const;
  const remark =
    `Rates are those of the ${wait(atMs - firstMs)} in which it was watched, counts those since ` +
    'the service started. A policy in shadow denies nobody: it tells what it would.';
  return part('Policies', remark, table('policies', columns, rows));
}

function keyPart(
  title: string,
  id: string,
  keys: readonly WatchedKey[],
  css: 'allowed' | 'denied',
) {
  const most = Math.max(1, ...keys.map(({ atLeast }) => atLeast));
  const rows = keys.map(({ policy, key, atLeast, atMost }) => [
    [nameText(key), ' ', soft(nameText(policy))],
    cellBar(atLeast, most, atLeast, css),
    atLeast === atMost ? count(atLeast) : `${count(atLeast)}+`,
  ]);
  const columns = [
    { heading: 'key, of which policy', kind: 'name' },
    { heading: '', kind: 'bars' },
    { heading: css, kind: 'number' },
  ] as const;
  const list =
    keys.length === 0 ? tag('p', { class: 'soft' }, 'Nobody.') : table(id, columns, rows);
  return tag('div', {}, tag('h3', {}, title), list);
}

export function topPage(result: TopResult): string {
  const { url, firstMs, atMs, version, mostDenied, mostAllowed } = result;
  const remark =
    'Those of the last five to ten minutes. A count with + is the least that it can be.';
  const period = `${when(firstMs)} to ${when(atMs)}`;
  return pageText({
    kind: 'top',
    headline: headline(result),
    lead: tag(
      'p',
      { class: 'soft' },
      [tag('span', { class: 'name' }, url), `, ${period}`],
      version !== undefined && `, sluice ${version}`,
    ),
    body: [
      healthTiles(result),
      timePart(result),
      policyPart(result),
      part(
        'Keys',
        remark,
        tag(
          'div',
          { class: 'beside' },
          keyPart('Denied most', 'most-denied', mostDenied, 'denied'),
          keyPart('Allowed most', 'most-allowed', mostAllowed, 'allowed'),
        ),
      ),
    ],
  });
}
