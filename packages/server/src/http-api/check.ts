/**
 * `POST /v1/check` and `POST /v1/peek`: one check, or a batch of them under `checks`. A batch is
 * read whole before anything is decided, so a mistake in it charges nobody.
 */
import { type FailureAction, type Limit, SluiceError } from 'sluice';
import { checkAction, expected, isRecord } from 'sluice/engine';
import type { HeaderForm } from 'sluice/http';
import type { Desk, LimitRequest, Verdict } from '../desk.ts';
import { asHttpError, badRequest, type Exchange } from '../http/exchange.ts';
import { fieldsOf, statusOf } from '../http/fields.ts';
import type { Handler } from '../http/router.ts';
import { checkCharacters } from '../policies.ts';
import { strayField } from './bodies.ts';
import { verdictText } from './decision-text.ts';
import { LONGEST_ID, MOST_CHECKS } from './schemas.ts';

/** Of all checks of a batch together: so much is decided while nobody else is served. */
export const MOST_LIMITS_OF_BATCH = 4096;

const LIMIT_FIELDS = new Set(['policy', 'key', 'cost', 'operation']);
const ONE_FIELDS = new Set([...LIMIT_FIELDS, 'id', 'onFailure']);
const SEVERAL_FIELDS = new Set(['limits', 'id', 'onFailure']);

/** A check that has been found sound. */
interface SoundCheck {
  readonly limits: readonly Limit[];
  readonly id: string | undefined;
  readonly onFailure: FailureAction | undefined;
}

/** The fields an object must not go beyond: a misspelt one would silently mean the default. */
function checkNames(value: Record<string, unknown>, known: Set<string>, pointer: string): void {
  for (const name in value) {
    if (!known.has(name)) throw strayField(known, name, pointer);
  }
}

function soundCheck(desk: Desk, body: unknown, peek: boolean, pointer: string): SoundCheck {
  if (!isRecord(body)) {
    const what = 'Expected a check: an object with `policy` and `key`, or with `limits`';
    throw badRequest('ERR_INVALID_CHECK', what, pointer);
  }
  const isJoint = Object.hasOwn(body, 'limits');
  checkNames(body, isJoint ? SEVERAL_FIELDS : ONE_FIELDS, pointer);
  const requests = isJoint
    ? jointRequests(body.limits, pointer)
    : [body as unknown as LimitRequest];
  return {
    limits: soundLimits(desk, requests, peek, pointer, isJoint),
    id: soundId(body.id, pointer),
    onFailure: soundAction(body.onFailure, pointer),
  };
}

function soundLimits(
  desk: Desk,
  requests: readonly LimitRequest[],
  peek: boolean,
  pointer: string,
  isJoint: boolean,
): readonly Limit[] {
  try {
    return desk.limits(requests, peek);
  } catch (error) {
    // Which of them it was is found out here, so that limits without a mistake are read once.
    const place = isJoint ? `${pointer}/limits` : pointer;
    for (const [at, request] of requests.entries()) {
      checkAlone(desk, request, peek, isJoint ? `${place}/${at}` : place);
    }
    throw asHttpError(error, place);
  }
}

function checkAlone(desk: Desk, request: LimitRequest, peek: boolean, pointer: string): void {
  try {
    desk.limits([request], peek);
  } catch (error) {
    throw asHttpError(error, pointer + fieldOf(error, request));
  }
}

/** The field that an error of the engine is about; empty if it is about no single one. */
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
      // An operation may cost more than an override leaves to its key.
      return cost === undefined ? '/operation' : '/cost';
    default:
      return '';
  }
}

function soundId(id: unknown, pointer: string): string | undefined {
  if (id === undefined) return undefined;
  try {
    if (typeof id === 'string' && id !== '' && id.length <= LONGEST_ID) {
      checkCharacters(id);
      return id;
    }
    const what = `the id to be a string of 1 to ${LONGEST_ID} characters`;
    throw expected('ERR_INVALID_KEY', what, id);
  } catch (error) {
    throw asHttpError(error, `${pointer}/id`);
  }
}

function soundAction(action: unknown, pointer: string): FailureAction | undefined {
  try {
    return checkAction(action);
  } catch (error) {
    throw asHttpError(error, `${pointer}/onFailure`);
  }
}

function jointRequests(limits: unknown, pointer: string): readonly LimitRequest[] {
  if (!Array.isArray(limits) || limits.length === 0) {
    const what = 'Expected `limits` to be an array of 1 to 64 limits';
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
  if (!Array.isArray(checks) || checks.length === 0 || checks.length > MOST_CHECKS) {
    const what = `Expected \`checks\` to be an array of 1 to ${MOST_CHECKS} checks`;
    throw badRequest('ERR_INVALID_CHECK', what, '/checks');
  }
  if (checks.reduce((sum, check) => sum + limitCount(check), 0) > MOST_LIMITS_OF_BATCH) {
    const what = `Expected \`checks\` to have at most ${MOST_LIMITS_OF_BATCH} limits in all`;
    throw badRequest('ERR_INVALID_CHECK', what, '/checks');
  }
  return checks;
}

const limitCount = (check: unknown): number =>
  isRecord(check) && Array.isArray(check.limits) ? check.limits.length : 1;

async function answerBatch(
  desk: Desk,
  exchange: Exchange,
  checks: readonly unknown[],
  peek: boolean,
): Promise<void> {
  const sound = checks.map((check, at) => soundCheck(desk, check, peek, `/checks/${at}`));
  const pending: (Verdict | Promise<Verdict>)[] = sound.map(({ limits, id, onFailure }) =>
    desk.decide(limits, { peek, id, onFailure }),
  );
  // Each is answered for itself: one that fails must not hide what the others were charged. All are
  // waited for at once, as one that fails while another is waited for would be nobody's.
  const settled = pending.some((each) => each instanceof Promise)
    ? await Promise.allSettled(pending)
    : pending.map((value) => ({ status: 'fulfilled' as const, value: value as Verdict }));
  const texts = settled.map((each, at) => {
    if (each.status === 'fulfilled') {
      const { id, limits } = sound[at];
      return verdictText(each.value, id, limits.length);
    }
    const { status, code, message } = asHttpError(each.reason, `/checks/${at}`);
    return JSON.stringify({ error: { status, code, detail: message } });
  });
  exchange.sendText(200, `{"decisions":[${texts.join(',')}]}`);
}

/**
 * Answers 200 either way; with `?enforce` a denial is a 429, with the fields that tell about it.
 * All that can be wrong is looked at before anything is decided.
 */
export function checkHandler(desk: Desk, peek: boolean, form?: HeaderForm): Handler {
  return (exchange) => {
    exchange.checkQuery('enforce');
    const isEnforced = exchange.flag('enforce');
    return exchange.useJson((body) => {
      const batch = batchOf(body);
      if (batch !== undefined) {
        if (!isEnforced) return answerBatch(desk, exchange, batch, peek);
        throw badRequest('ERR_INVALID_OPTION', 'Expected `enforce` with one check, got a batch');
      }
      const { limits, id, onFailure } = soundCheck(desk, body, peek, '');
      const answer = (verdict: Verdict): void => {
        const fields = isEnforced ? Object.fromEntries(fieldsOf(verdict, limits, form)) : undefined;
        const status = isEnforced ? statusOf(verdict) : 200;
        exchange.sendText(status, verdictText(verdict, id, limits.length), fields);
      };
      const verdict = desk.decide(limits, { peek, id, onFailure });
      return verdict instanceof Promise ? verdict.then(answer) : answer(verdict);
    });
  };
}
