/**
 * The body of a 429 or 503 response: problem details (RFC 9457) with the problem types of
 * draft-ietf-httpapi-ratelimit-headers-11.
 *
 * 429 means that the client exceeded a limit; 503 means that the limiter could not decide. Bodies
 * never contain a client's key.
 */
import type { Degraded } from '../decision.ts';
import { expected } from '../errors.ts';
import { type HeaderReport, shownLimits, waitMs } from './header-report.ts';

export interface RejectionInput {
  /** The denied decision. Undefined if there is no decision because the store threw. */
  readonly report?: HeaderReport | undefined;
  /** The decision's `degraded`. */
  readonly degraded?: Degraded | undefined;
  /** A URI reference for this occurrence, such as the request's path or id. */
  readonly instance?: string | undefined;
}

/** Status and body of the response to a request that does not pass. */
export interface Rejection {
  readonly status: number;
  readonly contentType: 'application/problem+json';
  readonly body: string;
}

const TYPES = 'https://iana.org/assignments/http-problem-types';

/** The constant start of each body. Avoids serializing it for each response. */
const BODY_STARTS = {
  429: bodyStart(429, 'quota-exceeded', 'Quota Exceeded'),
  503: bodyStart(503, 'temporary-reduced-capacity', 'Temporary Reduced Capacity'),
};

function bodyStart(status: number, name: string, title: string): string {
  return JSON.stringify({ type: `${TYPES}#${name}`, title, status }).slice(0, -1);
}

/** Builds the response to a denied request. */
export function rejection({ report, degraded, instance }: RejectionInput): Rejection {
  if (report?.allowed) {
    throw expected('ERR_INVALID_OPTION', '`report` to be a denied decision', 'an allowed one');
  }
  const status = report === undefined || degraded?.action === 'deny' ? 503 : 429;
  const violated = report === undefined ? [] : shownLimits(report).filter((each) => !each.allowed);
  const wait = report === undefined ? 0 : waitMs(report);
  const occurrence = instance === undefined ? '' : `,"instance":${JSON.stringify(instance)}`;
  const policies = JSON.stringify(violated.map(({ policy }) => policy));
  // In ms, more precise than Retry-After in seconds. Omitted if the wait is unknown.
  const after = wait > 0 && Number.isFinite(wait) ? `,"retry-after-ms":${wait}` : '';
  const body = `${BODY_STARTS[status]}${occurrence},"violated-policies":${policies}${after}}`;
  return { status, contentType: 'application/problem+json', body };
}
