/** Reads bodies of the admin API by their schemas; converts schema errors to problem details. */
import { expected, isRecord } from 'sluice/engine';
import type { z } from 'zod';
import { nothingForUndefined, type ServiceErrorCode } from '../http/problems.ts';
import { badRequest, type HttpError, type RequestContext } from '../http/request-context.ts';

/** Error codes by field name. Default: ERR_INVALID_BODY. */
const CODES: Readonly<Record<string, ServiceErrorCode>> = {
  policy: 'ERR_UNKNOWN_POLICY',
  key: 'ERR_INVALID_KEY',
  limit: 'ERR_INVALID_LIMIT',
  cost: 'ERR_INVALID_COST',
  costs: 'ERR_INVALID_COST',
  receipt: 'ERR_INVALID_RECEIPT',
  duration: 'ERR_INVALID_BLOCK',
  expiresAt: 'ERR_INVALID_OPTION',
  expiresInMs: 'ERR_INVALID_OPTION',
  reason: 'ERR_INVALID_OPTION',
};

/** The value of this field is never repeated in a response. */
const SECRET = 'token';

/**
 * Resolves to the parsed body; rejects if it does not match the schema. If the body has an unknown
 * field, the text of `advice` for this field name is added to the message.
 */
export async function readBody<S extends z.ZodObject>(
  context: RequestContext,
  schema: S,
  advice: Readonly<Record<string, string>> = {},
): Promise<z.output<S>> {
  const body = await context.readJson();
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw problemOf(schema, body, mainIssue(body, result.error.issues), advice);
}

type Issue = z.core.$ZodIssue;

const isUnknownField = (issue: Issue): issue is z.core.$ZodIssueUnrecognizedKeys =>
  issue.code === 'unrecognized_keys' && issue.path.length === 0;

/**
 * Returns the issue to report: usually the first one. If the first issue is a missing field and the
 * body has an unknown field, the unknown field may be a misspelling, so its issue is returned.
 */
function mainIssue(body: unknown, issues: readonly Issue[]): Issue {
  const [first] = issues;
  const isMissing = isRecord(body) && first.path.length === 1 && !(first.path[0] in body);
  return (isMissing ? issues.find(isUnknownField) : undefined) ?? first;
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
  if (isUnknownField(issue)) {
    const [unknown] = issue.keys;
    const hint = Object.hasOwn(advice, unknown) ? `; ${advice[unknown]}` : '';
    return unknownField(names, unknown, pointer, hint);
  }
  const what = `\`${field}\` to be ${schema.shape[field].description ?? 'something else'}`;
  const code = CODES[field] ?? 'ERR_INVALID_BODY';
  const message =
    field === SECRET ? `Expected ${what}, got something else` : messageOf(what, body[field]);
  return badRequest(code, message, pointer);
}

const messageOf = (what: string, received: unknown): string =>
  nothingForUndefined(expected('ERR_INVALID_OPTION', what, received).message);

export const escapePointer = (name: string): string =>
  name.replaceAll('~', '~0').replaceAll('/', '~1');

/** Returns the error for an unknown field. A misspelt field must not be ignored silently. */
export function unknownField(
  known: Iterable<string>,
  name: string,
  pointer: string,
  hint = '',
): HttpError {
  const shown = name.slice(0, 60);
  const what = `Expected only ${[...known].join(', ')}, got \`${shown}\`${hint}`;
  return badRequest('ERR_INVALID_BODY', what, `${pointer}/${escapePointer(shown)}`);
}
