/** Bodies of the admin side, read by their schemas, and refused in the service's own words. */
import { expected, isRecord } from 'sluice/engine';
import type { z } from 'zod';
import { type ServiceErrorCode, withNothing } from '../http/problems.ts';
import { badRequest, type HttpError, type RequestContext } from '../http/request-context.ts';

/** Codes that the engine has for a field of that name; the others are told as a wrong body. */
const CODES: Readonly<Record<string, ServiceErrorCode>> = {
  policy: 'ERR_UNKNOWN_POLICY',
  key: 'ERR_INVALID_KEY',
  limit: 'ERR_INVALID_LIMIT',
  cost: 'ERR_INVALID_COST',
  costs: 'ERR_INVALID_COST',
  receipt: 'ERR_INVALID_RECEIPT',
  expiresAt: 'ERR_INVALID_OPTION',
  expiresInMs: 'ERR_INVALID_OPTION',
  reason: 'ERR_INVALID_OPTION',
};

/** Not repeated to anybody, not even to whom it is from: answers are kept where tokens are not. */
const SECRET = 'token';

/** `advice` is what to do about a field that does not belong there, by its name. */
export async function readBody<S extends z.ZodObject>(
  context: RequestContext,
  schema: S,
  advice: Readonly<Record<string, string>> = {},
): Promise<z.output<S>> {
  const body = await context.readJson();
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw problemOf(schema, body, tellingOf(body, result.error.issues), advice);
}

type Issue = z.core.$ZodIssue;

const isStray = (issue: Issue): issue is z.core.$ZodIssueUnrecognizedKeys =>
  issue.code === 'unrecognized_keys' && issue.path.length === 0;

/** The first, unless that is a field that is missing: another may stand there in its stead. */
function tellingOf(body: unknown, issues: readonly Issue[]): Issue {
  const [first] = issues;
  const isMissing = isRecord(body) && first.path.length === 1 && !(first.path[0] in body);
  return (isMissing ? issues.find(isStray) : undefined) ?? first;
}

function problemOf(
  schema: z.ZodObject,
  body: unknown,
  issue: Issue,
  advice: Readonly<Record<string, string>>,
): HttpError {
  const names = Object.keys(schema.shape);
  if (!isRecord(body)) {
    const what = `the body to be an object with ${names.join(', ')}`;
    return badRequest('ERR_INVALID_BODY', messageOf(what, body), '');
  }
  const [field = ''] = issue.path.map(String);
  const pointer = issue.path.map((each) => `/${escapePointer(String(each))}`).join('');
  if (isStray(issue)) {
    const [stray] = issue.keys;
    const hint = Object.hasOwn(advice, stray) ? `; ${advice[stray]}` : '';
    return strayField(names, stray, pointer, hint);
  }
  const what = `\`${field}\` to be ${schema.shape[field].description ?? 'something else'}`;
  const code = CODES[field] ?? 'ERR_INVALID_BODY';
  const message =
    field === SECRET ? `Expected ${what}, got something else` : messageOf(what, body[field]);
  return badRequest(code, message, pointer);
}

/** The one form all messages have. */
const messageOf = (what: string, came: unknown): string =>
  withNothing(expected('ERR_INVALID_OPTION', what, came).message);

export const escapePointer = (name: string): string =>
  name.replaceAll('~', '~0').replaceAll('/', '~1');

/** A misspelt field would silently mean the default. */
export function strayField(
  known: Iterable<string>,
  name: string,
  pointer: string,
  hint = '',
): HttpError {
  const shown = name.slice(0, 60);
  const what = `Expected only ${[...known].join(', ')}, got \`${shown}\`${hint}`;
  return badRequest('ERR_INVALID_BODY', what, `${pointer}/${escapePointer(shown)}`);
}
