/**
 * What goes over `/v1`, as schemas. Bodies of the admin side are held to them; checks, which come
 * most often, are read by hand, and tests hold those to the schemas. Descriptions of fields end the
 * sentence "Expected `field` to be ...", so they are also what a wrong one is told.
 */
import { FAILURE_ACTIONS, MAX_KEY_LENGTH, MAX_LIMITS } from 'sluice/engine';
import { z } from 'zod';
import { MAX_OVERRIDE } from '../overrides.ts';

export * from './live-schemas.ts';

/** Receipts are named after it, with some characters before it, and a name is as long as a key. */
export const MAX_ID_LENGTH = 1000;
export const MAX_CHECKS = 1000;
export const MAX_REASON_LENGTH = 500;
/** No head can carry more. */
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
  .describe('text of 1 to 1024 characters, or a list of parts that are joined to one');
const keyText = z.string().describe('a key as one text');

const cost = z.int().min(0).describe('an integer: at least 1, for a peek at least 0');
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
    .describe('a name for this check: repeated under it, it is answered again, not charged again'),
  onFailure: z.enum(FAILURE_ACTIONS).optional().describe('what to do if the store is away'),
};
export const LimitRequest = z.strictObject(limitFields);
export const OneCheck = z.strictObject({ ...limitFields, ...callFields });
export const JointCheck = z.strictObject({
  limits: z
    .array(LimitRequest)
    .min(1)
    .max(MAX_LIMITS)
    .describe('limits that are decided together: all are charged, or none'),
  ...callFields,
});
export const Check = z.union([OneCheck, JointCheck]);
export const CheckBatch = z.strictObject({
  checks: z
    .array(Check)
    .min(1)
    .max(MAX_CHECKS)
    .describe('checks that are each decided for itself, in order'),
});

const charge = z.strictObject({
  policy: policyName,
  key: keyText,
  cost: z.int().min(1),
  atMs: timeMs,
  degraded: z.literal(true).optional().describe('set if it was not the store that charged it'),
  local: z.literal(true).optional().describe('set if one process charged it in its place'),
  late: z
    .string()
    .min(1)
    .max(64)
    .optional()
    .describe('set if the store may have charged it too, after the deadline'),
});
export const Receipt = z
  .strictObject({
    id: z.string().min(1).max(MAX_KEY_LENGTH),
    charges: z.array(charge).min(1).max(MAX_LIMITS),
  })
  .describe('the receipt of an allowed check, as it came');

const decisionFields = {
  allowed: z.boolean(),
  policy: policyName,
  key: keyText,
  cost: integer,
  limit: z.int().min(1).describe('the largest cost that could ever fit'),
  remaining: integer.describe('the largest cost that still fits now'),
  retryAfterMs: durationMs.describe('0 if allowed, else the wait in ms after which it passes'),
  resetAfterMs: durationMs.describe('in how many ms the key is as good as new'),
  atMs: timeMs,
};
export const LimitDecision = z.object(decisionFields);
const { allowed, ...ofEnforced } = decisionFields;
export const Decision = z
  .object({
    allowed,
    ...z.object(ofEnforced).partial().shape,
    limits: z.array(LimitDecision).describe('what each limit says; none if all are in shadow'),
    degraded: z
      .object({
        reason: z.enum(['timeout', 'error', 'open', 'overload']),
        action: z.enum(['allow', 'deny', 'local']),
      })
      .optional()
      .describe('set if the store could not decide: why, and what was done instead'),
    cached: z.literal(true).optional().describe('set if a denial was repeated from memory'),
    atomic: z.literal(false).optional().describe('set if the limits lay on several nodes'),
    shadow: z.array(LimitDecision).optional().describe('what limits in shadow say, each alone'),
    receipt: Receipt.optional(),
  })
  .describe('the fields of one limit speak of the limit that matters most');
const failedCheck = z.object({
  error: z.object({ status: z.int(), code: z.string(), detail: z.string() }),
});
export const DecisionBatch = z.object({ decisions: z.array(z.union([Decision, failedCheck])) });

export const RefundRequest = z.strictObject({ receipt: Receipt });
export const RefundAnswer = z.object({
  refunded: integer.describe('how much was given back, over all limits'),
  used: z.boolean().describe('whether the receipt had been used before'),
});
export const SettleRequest = z.strictObject({
  receipt: Receipt,
  cost: integer.optional().describe('an integer of at least 0: what it really cost, each limit'),
  costs: z
    .array(integer)
    .max(MAX_LIMITS)
    .optional()
    .describe('a list of what it really cost, one for each charge of the receipt'),
});
export const SettleAnswer = z.object({
  change: z.int().describe('the change that was made, over all limits; negative if given back'),
  used: z.boolean().describe('whether the receipt had been used before'),
});

export const ResetRequest = z.strictObject({ policy: policyName, key: Key });
export const ResetAnswer = z.object({ policy: policyName, key: keyText, reset: z.literal(true) });

const overrideFields = {
  limit: z.int().min(1).max(MAX_OVERRIDE).describe(`an integer from 1 to ${MAX_OVERRIDE}`),
  expiresAt: z
    .union([z.int().min(0), z.iso.datetime({ offset: true })])
    .optional()
    .describe('a time to come, such as 2030-01-31T12:00:00Z or ms since the epoch'),
  expiresInMs: z.int().min(1).optional().describe('a duration in ms, instead of expiresAt'),
  reason: z
    .string()
    .max(MAX_REASON_LENGTH)
    .optional()
    .describe(`text of at most ${MAX_REASON_LENGTH} characters: why it is there`),
};
export const OverrideFields = z.strictObject(overrideFields);
export const OverrideRequest = z.strictObject({
  policy: policyName,
  key: keyText
    .min(1)
    .max(MAX_KEY_LENGTH)
    .describe('a key as one text; in it * stands for anything'),
  ...overrideFields,
});
export const Override = z.object({
  policy: policyName,
  key: keyText,
  limit: overrideFields.limit,
  expiresAtMs: timeMs.optional(),
  reason: z.string().optional(),
  source: z.enum(['file', 'api']).describe('where it was made'),
});
const persisted = z.boolean().describe('whether it is there after a restart');
export const OverrideList = z.object({
  overrides: z.array(Override.extend({ persisted })),
});
export const OverrideAnswer = z.object({
  override: Override,
  before: Override.optional().describe('the one that it goes before, or in the place of'),
  persisted,
});
export const OverrideDeletion = z.object({
  deleted: Override,
  now: Override.optional().describe('what the files say, which counts again'),
  persisted: persisted.describe('whether it is gone after a restart'),
});

export const KeyReport = z.object({
  policy: policyName,
  key: keyText,
  held: z.boolean().describe('false if nothing is held about the key: it is as good as new'),
  algorithm: z.string(),
  limit: z.int().min(1).describe('the largest cost that could ever fit this key'),
  windowMs: durationMs,
  used: integer,
  remaining: integer,
  resetAfterMs: durationMs,
  cells: z.array(z.number()).describe("the algorithm's own numbers"),
  entries: z
    .array(z.object({ atMs: timeMs, cost: integer }))
    .describe('the entries of a log that count, oldest first; at most the newest 1,000'),
  entryCount: integer.describe('how many entries of the log count, listed or not'),
  atMs: timeMs.describe('the time that all this is of'),
  nextMs: durationMs.describe('0 if a call of cost 1 passes now, else in how many ms it does'),
  override: Override.optional().describe('the override that the limit is from'),
});

const shadowFields = {
  shadow: z.boolean().describe('whether it is decided and reported, but never in the way'),
  shadowBy: z.enum(['file', 'api']).describe('who said so: the files, or a PATCH'),
  shadowInFile: z.boolean().optional().describe('what the files say, where a PATCH goes before'),
};
export const Policy = z.object({
  name: policyName,
  limit: z.int().min(1),
  windowMs: durationMs,
  algorithm: z.string(),
  burst: z.int().min(1).optional(),
  buckets: z.int().min(1).optional(),
  costs: z.record(z.string(), z.int()),
  ...shadowFields,
  onFailure: callFields.onFailure,
  overrides: integer.describe('how many keys or patterns have a limit of their own'),
});
export const PolicyList = z.object({ policies: z.array(Policy) });
export const PolicyChange = z.strictObject({
  shadow: z.boolean().nullable().describe('true, false, or null for what the files say'),
});
export const PolicyChanged = z.object({
  policy: Policy.optional().describe('as it counts now; not there if it is not served any more'),
  before: z.object(shadowFields).describe('what counted until now'),
  persisted,
});

export const SignInRequest = z.strictObject({
  token: z.string().min(1).max(MAX_TOKEN_LENGTH).describe('the admin token'),
});
export const SessionAnswer = z.object({
  required: z.boolean().describe('whether the admin side takes a token here'),
  signedIn: z.boolean().describe('whether the admin side is open to this client'),
  expiresAtMs: timeMs.optional().describe('when the session ends, if it is by one'),
});

export const ReloadAnswer = z.object({
  ok: z.literal(true),
  changed: z.boolean().describe('false if the files are those of the last reload'),
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
    code: z.string().describe('what programs tell errors apart by'),
    detail: z.string(),
    pointer: z.string().optional().describe('where in the body, as a JSON pointer'),
    problems: z.array(configProblem).optional().describe('for ERR_CONFIG'),
  })
  .describe('problem details, RFC 9457');

export const Refusal = z
  .object({
    type: z.string().describe('quota-exceeded or temporary-reduced-capacity, of the IANA registry'),
    title: z.string(),
    status: z.int(),
    'violated-policies': z.array(policyName),
    'retry-after-ms': durationMs.optional().describe('not there if no wait is known to help'),
  })
  .describe('a denial as problem details, RFC 9457');
export const ProxyRefusal = z.union([Refusal, Problem]);

export const Alive = z.object({ alive: z.literal(true) });
export const Ready = z.object({
  ready: z.boolean(),
  draining: z.literal(true).optional().describe('set if it has been told to stop'),
  store: z.object({
    up: z.boolean().describe('whether the store decided something within the last second'),
    breaker: z.enum(['closed', 'open', 'probing']).optional(),
  }),
  config: z.object({
    ok: z.boolean().describe('whether the last reload went well'),
    problems: z.array(z.string()).optional().describe('for admins'),
  }),
});
export const TopReport = z.object({
  policy: policyName,
  by: z.enum(['denied', 'allowed']),
  sinceMs: timeMs,
  hits: integer.describe('all hits of the policy, whatever their keys'),
  othersAtMost: integer.describe('how many hits a key that is not listed can have had'),
  keys: z
    .array(z.object({ key: keyText, atLeast: integer, atMost: integer }))
    .describe('the most frequent first'),
});

/** What checks and peeks take and answer: one, or a batch. */
export const CheckBody = z.union([OneCheck, JointCheck, CheckBatch]);
export const CheckAnswer = z.union([Decision, DecisionBatch]);

/** The mapping of protocol buffers to JSON has more than one spelling, so it is only sketched. */
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
