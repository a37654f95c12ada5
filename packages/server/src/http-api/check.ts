/**
 * `POST /v1/check` and `POST /v1/peek`: one check, or a batch under `checks`. A batch is validated
 * as a whole before the first decision, so an invalid batch charges nothing.
 */
import { type FailureAction, type Limit, SluiceError } from 'sluice';
import { checkAction, expected, isRecord, MAX_LIMITS } from 'sluice/engine';
import type { HeaderForm } from 'sluice/http';
import type { DecisionService, LimitRequest, ServiceDecision } from '../decision-service.ts';
import { fieldsOf, statusOf } from '../http/fields.ts';
import { asHttpError, badRequest, type RequestContext } from '../http/request-context.ts';
import type { Handler } from '../http/router.ts';
import { checkCharacters } from '../policies.ts';
import { unknownField } from './bodies.ts';
import type { ClientOf } from './clients.ts';
import { decisionText } from './decision-text.ts';
import { MAX_CHECKS, MAX_ID_LENGTH, MAX_LABEL_LENGTH } from './schemas.ts';

/** Maximum number of limits of a batch, which is decided in one turn of the event loop. */
export const MAX_LIMITS_OF_BATCH = 4096;

const LIMIT_FIELDS = new Set(['policy', 'key', 'cost', 'operation']);
const CALL_FIELDS = ['id', 'onFailure', 'label'];
const SINGLE_FIELDS = new Set([...LIMIT_FIELDS, ...CALL_FIELDS]);
const JOINT_FIELDS = new Set(['limits', ...CALL_FIELDS]);

interface ValidatedCheck {
  readonly limits: readonly Limit[];
  readonly id: string | undefined;
  readonly onFailure: FailureAction | undefined;
  readonly label: string | undefined;
}

/** Throws if there is an unknown field. A misspelt field must not be ignored silently. */
function checkNames(value: Record<string, unknown>, known: Set<string>, pointer: string): void {
  for (const name in value) {
    if (!known.has(name)) throw unknownField(known, name, pointer);
  }
}

function validateCheck(
  decisionService: DecisionService,
  body: unknown,
  peek: boolean,
  pointer: string,
): ValidatedCheck {
  if (!isRecord(body)) {
    const what = 'Expected a check: an object with `policy` and `key`, or with `limits`';
    throw badRequest('ERR_INVALID_CHECK', what, pointer);
  }
  const isJoint = Object.hasOwn(body, 'limits');
  checkNames(body, isJoint ? JOINT_FIELDS : SINGLE_FIELDS, pointer);
  const requests = isJoint
    ? jointRequests(body.limits, pointer)
    : [body as unknown as LimitRequest];
  return {
    limits: validateLimits(decisionService, requests, peek, pointer, isJoint),
    id: validateId(body.id, pointer),
    onFailure: validateAction(body.onFailure, pointer),
    label: validateLabel(body.label, pointer),
  };
}

function validateLimits(
  decisionService: DecisionService,
  requests: readonly LimitRequest[],
  peek: boolean,
  pointer: string,
  isJoint: boolean,
): readonly Limit[] {
  try {
    return decisionService.limits(requests, peek);
  } catch (error) {
    // Validate each limit again to find the invalid one: the error contains a pointer to it.
    const place = isJoint ? `${pointer}/limits` : pointer;
    for (const [at, request] of requests.entries()) {
      validateAlone(decisionService, request, peek, isJoint ? `${place}/${at}` : place);
    }
    throw asHttpError(error, place);
  }
}

function validateAlone(
  decisionService: DecisionService,
  request: LimitRequest,
  peek: boolean,
  pointer: string,
): void {
  try {
    decisionService.limits([request], peek);
  } catch (error) {
    throw asHttpError(error, pointer + fieldOf(error, request));
  }
}

/** Returns the pointer to the field that caused an error of the engine, or an empty string. */
function fieldOf(error: unknown, { cost }: LimitRequest): string {
  switch (error instanceof SluiceError ? error.code : undefined) {
    case 'ERR_UNKNOWN_POLICY':
      return '/policy';
    case 'ERR_INVALID_KEY':
      return '/key';
    case 'ERR_UNKNOWN_OPERATION':
      return '/operation';
    case 'ERR_INVALID_COST':
      return '/cost';
    case 'ERR_COST_ABOVE_LIMIT':
      // The cost of an operation may be above the override of the key.
      return cost === undefined ? '/operation' : '/cost';
    default:
      return '';
  }
}

function validateId(id: unknown, pointer: string): string | undefined {
  if (id === undefined) return undefined;
  try {
    if (typeof id === 'string' && id !== '' && id.length <= MAX_ID_LENGTH) {
      checkCharacters(id);
      return id;
    }
    const what = `the id to be a string of 1 to ${MAX_ID_LENGTH} characters`;
    throw expected('ERR_INVALID_KEY', what, id);
  } catch (error) {
    throw asHttpError(error, `${pointer}/id`);
  }
}

function validateAction(action: unknown, pointer: string): FailureAction | undefined {
  try {
    return checkAction(action);
  } catch (error) {
    throw asHttpError(error, `${pointer}/onFailure`);
  }
}

function validateLabel(label: unknown, pointer: string): string | undefined {
  if (label === undefined) return undefined;
  if (typeof label === 'string' && label.length <= MAX_LABEL_LENGTH) return label;
  const what = `\`label\` to be a string of at most ${MAX_LABEL_LENGTH} characters`;
  throw asHttpError(expected('ERR_INVALID_OPTION', what, label), `${pointer}/label`);
}

function jointRequests(limits: unknown, pointer: string): readonly LimitRequest[] {
  if (!Array.isArray(limits) || limits.length === 0) {
    const what = `Expected \`limits\` to be an array of 1 to ${MAX_LIMITS} limits`;
    throw badRequest('ERR_INVALID_CHECK', what, `${pointer}/limits`);
  }
  for (const [at, limit] of limits.entries()) {
    const where = `${pointer}/limits/${at}`;
    if (!isRecord(limit)) {
      throw badRequest('ERR_INVALID_CHECK', 'Expected a limit: `policy` and `key`', where);
    }
    checkNames(limit, LIMIT_FIELDS, where);
  }
  return limits as LimitRequest[];
}

function batchOf(body: unknown): readonly unknown[] | undefined {
  if (!isRecord(body) || !Object.hasOwn(body, 'checks')) return undefined;
  checkNames(body, new Set(['checks']), '');
  const { checks } = body;
  if (!Array.isArray(checks) || checks.length === 0 || checks.length > MAX_CHECKS) {
    const what = `Expected \`checks\` to be an array of 1 to ${MAX_CHECKS} checks`;
    throw badRequest('ERR_INVALID_CHECK', what, '/checks');
  }
  if (checks.reduce((sum, check) => sum + limitCount(check), 0) > MAX_LIMITS_OF_BATCH) {
    const what = `Expected \`checks\` to have at most ${MAX_LIMITS_OF_BATCH} limits in all`;
    throw badRequest('ERR_INVALID_CHECK', what, '/checks');
  }
  return checks;
}

const limitCount = (check: unknown): number =>
  isRecord(check) && Array.isArray(check.limits) ? check.limits.length : 1;

async function decideBatch(
  decisionService: DecisionService,
  context: RequestContext,
  checks: readonly unknown[],
  peek: boolean,
  client: string,
): Promise<void> {
  const validated = checks.map((check, at) =>
    validateCheck(decisionService, check, peek, `/checks/${at}`),
  );
  const pending: (ServiceDecision | Promise<ServiceDecision>)[] = validated.map(
    ({ limits, ...call }) => decisionService.decide(limits, { peek, client, ...call }),
  );
  // Each check has its own result: if one fails, the client still gets the receipts of the others.
  const settled = pending.some((each) => each instanceof Promise)
    ? await Promise.allSettled(pending)
    : pending.map((value) => ({ status: 'fulfilled' as const, value: value as ServiceDecision }));
  const texts = settled.map((each, at) => {
    if (each.status === 'fulfilled') {
      const { id, limits } = validated[at];
      return decisionText(each.value, id, limits.length, client);
    }
    const { status, code, message } = asHttpError(each.reason, `/checks/${at}`);
    return JSON.stringify({ error: { status, code, detail: message } });
  });
  context.sendText(200, `{"decisions":[${texts.join(',')}]}`);
}

/**
 * Returns a handler that responds with 200 to allowed and denied checks. With `?enforce`, it
 * responds to a denied check with 429 and rate-limit headers.
 */
export function checkHandler(
  decisionService: DecisionService,
  peek: boolean,
  clientOf: ClientOf,
  form?: HeaderForm,
): Handler {
  return (context) => {
    context.checkQuery('enforce');
    const isEnforced = context.flag('enforce');
    return context.useJson((body) => {
      const client = clientOf(context);
      const batch = batchOf(body);
      if (batch !== undefined) {
        if (!isEnforced) return decideBatch(decisionService, context, batch, peek, client);
        throw badRequest(
          'ERR_INVALID_OPTION',
          'Expected `enforce` with a single check, got a batch',
        );
      }
      const { limits, ...call } = validateCheck(decisionService, body, peek, '');
      const send = (decision: ServiceDecision): void => {
        const fields = isEnforced
          ? Object.fromEntries(fieldsOf(decision, limits, form))
          : undefined;
        const status = isEnforced ? statusOf(decision) : 200;
        context.sendText(status, decisionText(decision, call.id, limits.length, client), fields);
      };
      const decision = decisionService.decide(limits, { peek, client, ...call });
      return decision instanceof Promise ? decision.then(send) : send(decision);
    });
  };
}
