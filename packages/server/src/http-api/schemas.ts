/**
 * Schemas of the HTTP API. They validate bodies of the admin API. For speed, `check.ts` validates
 * checks without a schema; tests compare the results with the schemas. Descriptions of request
 * fields complete the sentence "Expected `field` to be ..." in error messages.
 */
import { FAILURE_ACTIONS, MAX_KEY_LENGTH, MAX_LIMITS } from 'sluice/engine';
import { z } from 'zod';
import { MAX_OVERRIDE } from '../overrides.ts';

export * from './live-schemas.ts';

/**
 * Less than the maximum length of a key, because the store adds a prefix to a check id and uses the
 * result as a key.
 */
export const MAX_ID_LENGTH = 1000;
export const MAX_CHECKS = 1000;
export const MAX_REASON_LENGTH = 500;
export const MAX_LABEL_LENGTH = 64;
/**
 * Equal to the maximum size of all headers of a request, because bearer tokens are sent in a
 * header.
 */
const MAX_TOKEN_LENGTH = 32 * 1024;

const policyName = z.string().describe('the name of a policy');
const integer = z.int().min(0);
const timeMs = integer.describe('a time in ms since the epoch');
const durationMs = integer.describe('a duration in ms');

export const Key = z
  .union([
    z.string().min(1).max(MAX_KEY_LENGTH),
    z
      .array(z.union([z.string(), z.number()]))
      .min(1)
      .max(MAX_KEY_LENGTH),
  ])
  .describe('a string of 1 to 1024 characters, or a list of parts that are joined');
const keyText = z.string().describe('a key as a string');

const cost = z.int().min(0).describe('an integer of at least 1, or at least 0 for a peek');
const limitFields = {
  policy: policyName,
  key: Key,
  cost: cost.optional(),
  operation: z.string().optional().describe('the name of one of the costs of the policy'),
};
const callFields = {
  id: z
    .string()
    .min(1)
    .max(MAX_ID_LENGTH)
    .optional()
    .describe('an idempotency key: a repeated check returns the same decision, charged once'),
  onFailure: z.enum(FAILURE_ACTIONS).optional().describe('the action if the store is unavailable'),
  label: z
    .string()
    .max(MAX_LABEL_LENGTH)
    .optional()
    .describe('the name of the holder of a concurrency limit, for `/v1/keys`'),
};
export const LimitRequest = z.strictObject(limitFields);
export const OneCheck = z.strictObject({ ...limitFields, ...callFields });
export const JointCheck = z.strictObject({
  limits: z
    .array(LimitRequest)
    .min(1)
    .max(MAX_LIMITS)
    .describe('limits that are decided atomically: all are charged, or none'),
  ...callFields,
});
export const Check = z.union([OneCheck, JointCheck]);
export const CheckBatch = z.strictObject({
  checks: z
    .array(Check)
    .min(1)
    .max(MAX_CHECKS)
    .describe('checks that are decided independently, in order'),
});

const charge = z.strictObject({
  policy: policyName,
  key: keyText,
  cost: z.int().min(1),
  atMs: timeMs,
  degraded: z.literal(true).optional().describe('set if the charge is not in the store'),
  local: z.literal(true).optional().describe('set if the local fallback made the charge'),
  late: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe('set if the store may also have made the charge, after the deadline'),
  fence: integer.optional().describe('set for a concurrency limit: the fencing token of the hold'),
  lease: integer.optional().describe('set if it was made with borrowed units'),
});
export const Receipt = z
  .strictObject({
    id: z.string().min(1).max(MAX_KEY_LENGTH),
    charges: z.array(charge).min(1).max(MAX_LIMITS),
  })
  .describe('the unchanged receipt of an allowed check');

const decisionFields = {
  allowed: z.boolean(),
  policy: policyName,
  key: keyText,
  cost: integer,
  limit: z.int().min(1).describe('the capacity: the largest cost that can ever be allowed'),
  remaining: integer.describe('the largest cost that is allowed now'),
  retryAfterMs: durationMs.describe('0 if allowed, else the time in ms until it is allowed'),
  resetAfterMs: durationMs.describe('the time in ms until the key is fully reset'),
  atMs: timeMs,
  fence: integer
    .optional()
    .describe(
      'set for a concurrency limit: a fencing token, above those of earlier holds of the key',
    ),
  blockedUntilMs: timeMs.optional().describe('the end of the running block, in ms since the epoch'),
  lease: integer.optional().describe('set if it was charged to borrowed units: the lease'),
};
export const LimitDecision = z.object(decisionFields);
const { allowed, ...ofEnforced } = decisionFields;
export const Decision = z
  .object({
    allowed,
    ...z.object(ofEnforced).partial().shape,
    limits: z
      .array(LimitDecision)
      .describe('the decision of each limit; empty if all are in shadow mode'),
    degraded: z
      .object({
        reason: z.enum(['timeout', 'error', 'open', 'overload']),
        action: z.enum(['allow', 'deny', 'local']),
      })
      .optional()
      .describe('set if the store could not decide: the reason and the fallback action'),
    cached: z
      .literal(true)
      .optional()
      .describe('set if an earlier denial that still holds was reused'),
    atomic: z.literal(false).optional().describe('set if the limits are on several Redis nodes'),
    leased: z.literal(true).optional().describe('set if only borrowed units were charged'),
    shadow: z.array(LimitDecision).optional().describe('the decisions of limits in shadow mode'),
    receipt: Receipt.optional(),
  })
  .describe('the fields outside `limits` are those of the most restrictive limit');
const failedCheck = z.object({
  error: z.object({ status: z.int(), code: z.string(), detail: z.string() }),
});
export const DecisionBatch = z.object({ decisions: z.array(z.union([Decision, failedCheck])) });

export const RefundRequest = z.strictObject({ receipt: Receipt });
export const RefundResponse = z.object({
  refunded: integer.describe('the refunded cost, summed over all limits'),
  used: z.boolean().describe('whether the receipt had been used before'),
});
export const SettleRequest = z.strictObject({
  receipt: Receipt,
  cost: integer.optional().describe('an integer of at least 0: the actual cost for each limit'),
  costs: z
    .array(integer)
    .max(MAX_LIMITS)
    .optional()
    .describe('a list of actual costs, one per charge of the receipt'),
});
export const SettleResponse = z.object({
  change: z.int().describe('the change of the cost, summed over all limits; negative if refunded'),
  used: z.boolean().describe('whether the receipt had been used before'),
});

export const HoldRequest = z.strictObject({ receipt: Receipt });
export const ReleaseResponse = z.object({
  released: z.boolean().describe('false if a hold had expired or was released before'),
});
export const RenewResponse = z.object({
  renewed: z.boolean().describe('false if a hold has expired or was released: stop the work'),
});

export const BlockRequest = z.strictObject({
  policy: policyName,
  key: Key,
  duration: z
    .union([z.string().min(1), z.int().min(1)])
    .describe('a duration such as "15m", or in ms'),
});
export const BlockResponse = z.object({
  policy: policyName,
  key: keyText,
  blocked: z.boolean(),
  blockedUntilMs: timeMs.optional().describe('the end of the block, in ms since the epoch'),
});

export const ResetRequest = z.strictObject({ policy: policyName, key: Key });
export const ResetResponse = z.object({ policy: policyName, key: keyText, reset: z.literal(true) });

const overrideFields = {
  limit: z.int().min(1).max(MAX_OVERRIDE).describe(`an integer from 1 to ${MAX_OVERRIDE}`),
  expiresAt: z
    .union([z.int().min(0), z.iso.datetime({ offset: true })])
    .optional()
    .describe('a time in the future, such as 2030-01-31T12:00:00Z or ms since the epoch'),
  expiresInMs: z.int().min(1).optional().describe('a duration in ms, instead of expiresAt'),
  reason: z
    .string()
    .max(MAX_REASON_LENGTH)
    .optional()
    .describe(`a string of at most ${MAX_REASON_LENGTH} characters`),
};
export const OverrideFields = z.strictObject(overrideFields);
export const OverrideRequest = z.strictObject({
  policy: policyName,
  key: keyText.min(1).max(MAX_KEY_LENGTH).describe('a key, or a pattern with * for any characters'),
  ...overrideFields,
});
export const Override = z.object({
  policy: policyName,
  key: keyText,
  limit: overrideFields.limit,
  expiresAtMs: timeMs.optional(),
  reason: z.string().optional(),
  source: z.enum(['file', 'api']).describe('where the override is defined'),
});
const persisted = z.boolean().describe('whether the change survives a restart');
export const OverrideList = z.object({
  overrides: z.array(Override.extend({ persisted })),
});
export const OverrideResponse = z.object({
  override: Override,
  before: Override.optional().describe('the override that was in effect before'),
  persisted,
});
export const OverrideDeletion = z.object({
  deleted: Override,
  now: Override.optional().describe('the override of the files, which is in effect again'),
  persisted,
});

export const KeyReport = z.object({
  policy: policyName,
  key: keyText,
  held: z.boolean().describe('false if the store has no entry for the key'),
  algorithm: z.string(),
  limit: z.int().min(1).describe('the capacity of the key'),
  windowMs: durationMs,
  used: integer,
  remaining: integer,
  resetAfterMs: durationMs,
  cells: z.array(z.number()).describe('internal numbers of the algorithm'),
  entries: z
    .array(z.object({ atMs: timeMs, cost: integer }))
    .describe('the unexpired entries of a log, oldest first; at most the newest 1,000'),
  entryCount: integer.describe('number of unexpired entries of the log, listed or not'),
  holds: z
    .array(
      z.object({
        fence: integer,
        cost: integer,
        atMs: timeMs.describe('the time at which the hold was taken or last renewed'),
        expiresAtMs: timeMs,
        label: z.string().optional(),
      }),
    )
    .optional()
    .describe('the holds of a concurrency limit, sorted by expiry; at most the newest 1,000'),
  leases: z
    .array(z.object({ id: integer, units: integer, endsAtMs: timeMs }))
    .optional()
    .describe('units that processes have borrowed; `used` includes them'),
  blockedUntilMs: timeMs.optional().describe('the end of the running block'),
  blocks: integer.optional().describe('number of blocks in a row'),
  atMs: timeMs.describe('the time of this report'),
  nextMs: durationMs.describe('0 if a call of cost 1 is allowed now, else the time until it is'),
  nextForCostMs: durationMs
    .optional()
    .describe('the same for the query parameter `cost`; absent if `cost` exceeds the limit'),
  override: Override.optional().describe('the override that defines the limit'),
});

const shadowFields = {
  shadow: z.boolean().describe('whether the policy is in shadow mode: reported, not enforced'),
  shadowBy: z.enum(['file', 'api']).describe('the source of `shadow`: the files or a PATCH'),
  shadowInFile: z.boolean().optional().describe('the value in the files, if a PATCH overrides it'),
};
export const Policy = z.object({
  name: policyName,
  limit: integer.describe('0 for a limit that denies everything; else the limit or concurrency'),
  windowMs: durationMs.describe('the window, or the lease of a concurrency limit'),
  algorithm: z.string().describe('the algorithm; `concurrency` for a concurrency limit'),
  burst: z.int().min(1).optional(),
  buckets: z.int().min(1).optional(),
  block: z
    .object({ forMs: durationMs, factor: z.int(), maxMs: durationMs, forgetMs: durationMs })
    .optional()
    .describe('a key is blocked for min(forMs * factor^k, maxMs) after k blocks in a row'),
  leased: z.literal(true).optional().describe('set if processes may borrow units'),
  costs: z.record(z.string(), z.int()),
  ...shadowFields,
  onFailure: callFields.onFailure,
  overrides: integer.describe('number of overrides'),
});
export const PolicyList = z.object({ policies: z.array(Policy) });
export const PolicyChange = z.strictObject({
  shadow: z.boolean().nullable().describe('true, false, or null for the value in the files'),
});
export const PolicyChanged = z.object({
  policy: Policy.optional().describe('the current policy; absent if no longer configured'),
  before: z.object(shadowFields).describe('the values before the change'),
  persisted,
});

export const SignInRequest = z.strictObject({
  token: z.string().min(1).max(MAX_TOKEN_LENGTH).describe('the admin token'),
});
export const SessionResponse = z.object({
  required: z.boolean().describe('whether the admin API requires a token'),
  signedIn: z.boolean().describe('whether this client has admin access'),
  expiresAtMs: timeMs.optional().describe('the expiry of the session, if any'),
});

export const ReloadResponse = z.object({
  ok: z.literal(true),
  changed: z.boolean().describe('false if the files have not changed since the last reload'),
});

const configProblem = z.object({
  file: z.string(),
  line: z.int(),
  column: z.int(),
  message: z.string(),
});
export const Problem = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    code: z.string().describe('a stable error code'),
    detail: z.string(),
    pointer: z.string().optional().describe('the position in the body, as a JSON pointer'),
    problems: z.array(configProblem).optional().describe('set for ERR_CONFIG'),
  })
  .describe('problem details, RFC 9457');

export const Refusal = z
  .object({
    type: z.string().describe('quota-exceeded or temporary-reduced-capacity, of the IANA registry'),
    title: z.string(),
    status: z.int(),
    'violated-policies': z.array(policyName),
    'retry-after-ms': durationMs.optional().describe('absent if the wait is unknown or infinite'),
  })
  .describe('a denial as problem details, RFC 9457');
export const ProxyRefusal = z.union([Refusal, Problem]);

export const Alive = z.object({ alive: z.literal(true) });
export const Ready = z.object({
  ready: z.boolean(),
  draining: z.literal(true).optional().describe('set during shutdown'),
  store: z.object({
    up: z.boolean().describe('whether the store decided the last probe'),
    breaker: z.enum(['closed', 'open', 'probing']).optional(),
  }),
  config: z.object({
    ok: z.boolean().describe('whether the last reload succeeded'),
    problems: z.array(z.string()).optional().describe('sent to admins only'),
  }),
});
export const TopReport = z.object({
  policy: policyName,
  by: z.enum(['denied', 'allowed']),
  sinceMs: timeMs,
  hits: integer.describe('number of hits of all keys of the policy'),
  othersAtMost: integer.describe('upper bound of the hits of any key that is not listed'),
  keys: z
    .array(z.object({ key: keyText, atLeast: integer, atMost: integer }))
    .describe('most frequent first'),
});

/** The body of a check or peek: one check, or a batch of checks. */
export const CheckBody = z.union([OneCheck, JointCheck, CheckBatch]);
export const CheckResponse = z.union([Decision, DecisionBatch]);

/** Accepts unknown fields: the JSON mapping of protocol buffers allows two spellings of a field. */
export const RateLimitRequest = z
  .looseObject({
    domain: z.string(),
    descriptors: z.array(
      z.looseObject({ entries: z.array(z.looseObject({ key: z.string(), value: z.string() })) }),
    ),
  })
  .describe('envoy.service.ratelimit.v3.RateLimitRequest');
export const RateLimitResponse = z
  .looseObject({
    overallCode: z.enum(['OK', 'OVER_LIMIT']),
    statuses: z.array(z.looseObject({ code: z.enum(['OK', 'OVER_LIMIT']) })),
  })
  .describe('envoy.service.ratelimit.v3.RateLimitResponse');
