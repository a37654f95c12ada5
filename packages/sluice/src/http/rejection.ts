/**
 * The body of an answer that refuses a request: problem details (RFC 9457), with the problem types
 * of draft-ietf-httpapi-ratelimit-headers-11.
 *
 * Two things must not be mixed up: a caller who asked too often (429) and a limiter that could not
 * decide (503), for which the caller is not to blame. No key of a caller is ever in a body.
 */
import type { Degraded } from '../decision.ts';
import { expected } from '../errors.ts';
import { type HeaderReport, shownLimits, waitMs } from './headers.ts';

export interface RejectionInput {
  /** The answer that denies; undefined when there is none because the store threw. */
  readonly report?: HeaderReport | undefined;
  /** What the decision says about its store. */
  readonly degraded?: Degraded | undefined;
  /** A URI reference for this occurrence, such as the path or the id of the request. */
  readonly instance?: string | undefined;
}

export interface Rejection {
  readonly status: 429 | 503;
  readonly contentType: 'application/problem+json';
  readonly body: string;
}

const TYPES = 'https://iana.org/assignments/http-problem-types';

const STARTS = {
  429: start(429, 'quota-exceeded', 'Quota Exceeded'),
  503: start(503, 'temporary-reduced-capacity', 'Temporary Reduced Capacity'),
};

/** How the body begins. Whoever refuses much has to do it cheaply, so most of it is made once. */
function start(status: number, name: string, title: string): string {
  return JSON.stringify({ type: `${TYPES}#${name}`, title, status }).slice(0, -1);
}

/** Without a decision by a limit, of the store or of this process, nobody has asked too often. */
const statusOf = ({ report, degraded }: RejectionInput): 429 | 503 =>
  report === undefined || degraded?.action === 'deny' ? 503 : 429;

/** Builds the answer to a request that is not let through. */
export function rejection(input: RejectionInput): Rejection {
  const { report, instance } = input;
  if (report?.allowed) {
    throw expected('ERR_INVALID_OPTION', '`report` to deny, or there is nothing to reject', true);
  }
  const status = statusOf(input);
  const violated = report === undefined ? [] : shownLimits(report).filter((each) => !each.allowed);
  const wait = report === undefined ? 0 : waitMs(report);
  const occurrence = instance === undefined ? '' : `,"instance":${JSON.stringify(instance)}`;
  const policies = JSON.stringify(violated.map(({ policy }) => policy));
  // Retry-After has only whole seconds; a wait that nobody knows is not made up.
  const after = wait > 0 && Number.isFinite(wait) ? `,"retry-after-ms":${wait}` : '';
  const body = `${STARTS[status]}${occurrence},"violated-policies":${policies}${after}}`;
  return { status, contentType: 'application/problem+json', body };
}
