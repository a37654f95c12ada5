/** What the history and the live feed tell, as schemas. */
import { z } from 'zod';
import { STORE_KINDS } from '../stores/index.ts';

const name = z.string().describe('the name of a policy, or a label that several share');
const count = z.int().min(0);
const timeMs = z.int().min(0).describe('a time in ms since the epoch');
const durationMs = z.int().min(0).describe('a duration in ms');
const full = z
  .number()
  .min(0)
  .max(1)
  .nullable()
  .describe('how full the fullest key was that was decided; 1 for a denial; null if none was');
const waitMs = z.number().min(0).optional();
const processes = z.int().min(1).describe('how many serve together');
const omitted = count.describe('how many policies more there are than are told');

const counts = {
  allowed: count,
  denied: count,
  shadowAllowed: count.describe('by limits in shadow'),
  shadowDenied: count.describe('by limits in shadow, so nobody was'),
  degraded: count.describe('checks that the store could not decide'),
  fullest: full,
};

const series = {
  allowed: z.array(count),
  denied: z.array(count),
  shadowAllowed: z.array(count),
  shadowDenied: z.array(count),
  degraded: z.array(count),
  fullest: z.array(full),
};
export const SeriesReport = z.object({
  stepMs: z.literal(1000),
  startMs: timeMs.describe('the start of the first second'),
  total: z.object(series).describe('all policies together, the oldest second first'),
  policies: z.array(z.object({ name, ...series })).describe('the busiest first'),
  omitted,
});

export const HelloEvent = z
  .object({ version: z.string(), startedAtMs: timeMs, atMs: timeMs, processes })
  .describe('the data of `hello`, which comes once: from then on no denial is missed');

const denial = z.object({
  atMs: timeMs,
  policy: z.string(),
  key: z.string(),
  cost: count,
  limit: count.describe('the capacity; 0 if nothing ever passes'),
  remaining: count,
  retryAfterMs: durationMs.optional().describe('not there if no wait helps'),
  windowMs: durationMs.optional(),
  algorithm: z.string().optional(),
  shadow: z.literal(true).optional().describe('set if the policy is in shadow, so nobody was'),
  degraded: z.object({ reason: z.string(), action: z.string() }).optional(),
});
export const TickEvent = z
  .object({
    atMs: timeMs.describe('the start of the second that it is about'),
    total: z.object(counts),
    policies: z.array(z.object({ name, ...counts })).describe('those that something happened to'),
    omitted,
    store: z.object({
      kind: z.enum(STORE_KINDS.map(({ name }) => name)),
      up: z.boolean(),
      breaker: z.enum(['closed', 'open', 'probing']).optional(),
      latencyMs: waitMs.describe('how long it took to decide when it was probed'),
      keys: count.optional(),
    }),
    decisions: z
      .object({ p50Ms: waitMs, p99Ms: waitMs })
      .describe('how long was waited for decisions, reckoned from the buckets of the histogram'),
    processes,
    denials: z.array(denial).describe('the first of those that fit the filter'),
    denialsOmitted: count.describe('how many more fit it'),
  })
  .describe('the data of `tick`, which comes once a second');

export const ChangedEvent = z
  .object({ what: z.enum(['policies', 'overrides']) })
  .describe('the data of `changed`: what is worth asking for again');

export const EndEvent = z
  .object({ why: z.enum(['expired', 'stopping', 'slow']) })
  .describe('the data of `end`, after which the stream is closed');

export const LiveEvent = z
  .union([HelloEvent, TickEvent, ChangedEvent, EndEvent])
  .describe('the data of one event, by its name');

export const Links = z.record(z.string(), z.string()).describe('where things are');
