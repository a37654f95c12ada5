/** Schemas of the history and the live feed. */
import { z } from 'zod';
import { STORE_KINDS } from '../stores/index.ts';

const name = z.string().describe('the name of a policy, or a label shared by several policies');
const count = z.int().min(0);
const timeMs = z.int().min(0).describe('a time in ms since the epoch');
const durationMs = z.int().min(0).describe('a duration in ms');
const full = z
  .number()
  .min(0)
  .max(1)
  .nullable()
  .describe(
    'used part of the limit, of the key that used most; 1 for a denial; null without decisions',
  );
const waitMs = z.number().min(0).optional();
const processes = z.int().min(1).describe('number of processes of the service');
const omitted = count.describe('number of policies that are not listed');

const counts = {
  allowed: count,
  denied: count,
  shadowAllowed: count.describe('allowed by limits in shadow mode'),
  shadowDenied: count.describe('denied by limits in shadow mode, which has no effect'),
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
  stepMs: durationMs.describe('the length of a step: 1000, or a multiple of 60000'),
  startMs: timeMs.describe('the start of the first step'),
  sinceMs: timeMs.describe('the start of the recording; earlier steps are unknown, not 0'),
  total: z.object(series).describe('all policies together, oldest step first'),
  policies: z.array(z.object({ name, ...series })).describe('most decisions first'),
  omitted,
});

export const HelloEvent = z
  .object({
    ...{ version: z.string(), startedAtMs: timeMs, atMs: timeMs, processes },
    grafanaUrl: z.string().optional().describe('the setting `grafanaUrl`'),
  })
  .describe('the data of `hello`, the first event; `tick` counts all later denials');

const denial = z.object({
  atMs: timeMs,
  policy: z.string(),
  key: z.string(),
  cost: count,
  limit: count.describe('the capacity; 0 for a limit that denies everything'),
  remaining: count,
  retryAfterMs: durationMs.optional().describe('absent if the wait is infinite'),
  blockedUntilMs: timeMs.optional().describe('set if the key is blocked: the end of the block'),
  windowMs: durationMs.optional(),
  algorithm: z.string().optional(),
  shadow: z.literal(true).optional().describe('set if the policy is in shadow mode'),
  degraded: z.object({ reason: z.string(), action: z.string() }).optional(),
  repeats: z
    .int()
    .min(1)
    .optional()
    .describe('number of earlier denials of this policy and key in the same second'),
});
export const TickEvent = z
  .object({
    atMs: timeMs.describe('the start of the second'),
    total: z.object(counts),
    policies: z.array(z.object({ name, ...counts })).describe('policies with decisions'),
    omitted,
    store: z.object({
      kind: z.enum(STORE_KINDS.map(({ name }) => name)),
      up: z.boolean(),
      breaker: z.enum(['closed', 'open', 'probing']).optional(),
      latencyMs: waitMs.describe('duration of the last probe'),
      keys: count.optional(),
    }),
    decisions: z
      .object({ p50Ms: waitMs, p99Ms: waitMs })
      .describe('duration of decisions, estimated from histogram buckets'),
    processes,
    denials: z
      .array(denial)
      .describe('the last denial of each of the first 50 keys that match the filter'),
    denialsOmitted: count.describe(
      'number of further denials that match the filter, including those in `repeats`',
    ),
  })
  .describe('the data of `tick`, sent once per second');

export const ChangedEvent = z
  .object({ what: z.enum(['policies', 'overrides']) })
  .describe('the data of `changed`: the resource that changed');

export const EndEvent = z
  .object({ why: z.enum(['expired', 'stopping', 'slow']) })
  .describe('the data of `end`, after which the stream is closed');

export const LiveEvent = z
  .union([HelloEvent, TickEvent, ChangedEvent, EndEvent])
  .describe('the data of an event; the name of the event determines the type');

export const Links = z.record(z.string(), z.string()).describe('entry points of the service');
