/** Bodies of the admin side, read by their schemas, and refused in the service's own words. */
import { expected, isRecord } from 'sluice/engine';
import type { z } from 'zod';
import { badRequest, type Exchange, type HttpError } from '../http/exchange.ts';
import type { ServiceErrorCode } from '../http/problems.ts';

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

export async function readBody<S extends z.ZodObject>(
  exchange: Exchange,
  schema: S,
): Promise<z.output<S>> {
  const body = await exchange.readJson();
  const result = schema.safeParse(body);
  if (result.success) return result.data;
  throw problemOf(schema, body, result.error.issues[0]);
}

function problemOf(schema: z.ZodObject, body: unknown, issue: z.core.$ZodIssue): HttpError {
  const names = Object.keys(schema.shape);
  if (!isRecord(body)) {
    const what = `the body to be an object with ${names.join(', ')}`;
    return badRequest('ERR_INVALID_BODY', messageOf(what, body), '');
  }
  const [field = ''] = issue.path.map(String);
  const pointer = issue.path.map((each) => `/${escapePointer(String(each))}`).join('');
  if (issue.code === 'unrecognized_keys' && issue.path.length === 0) {
    return strayField(names, issue.keys[0], pointer);
  }
  const what = `\`${field}\` to be ${schema.shape[field].description ?? 'something else'}`;
  const code = CODES[field] ?? 'ERR_INVALID_BODY';
  const message =
    field === SECRET ? `Expected ${what}, got something else` : messageOf(what, body[field]);
  return badRequest(code, message, pointer);
}

/** The one form all messages have. */
const messageOf = (what: string, came: unknown): string =>
  expected('ERR_INVALID_OPTION', what, came).message;

export const escapePointer = (name: string): string =>
  name.replaceAll('~', '~0').replaceAll('/', '~1');

/** A misspelt field would silently mean the default. */
export function strayField(known: Iterable<string>, name: string, pointer: string): HttpError {
  const shown = name.slice(0, 60);
  const what = `Expected only ${[...known].join(', ')}, got \`${shown}\``;
  return badRequest('ERR_INVALID_BODY', what, `${pointer}/${escapePointer(shown)}`);
}
