/**
 * Reads and writes Envoy's messages in the JSON mapping of protocol buffers: fields in snake_case
 * or lowerCamelCase, numbers also as strings, enums by name or number. Rejects unknown fields.
 */
import { badRequest, type HttpError } from '../http/request-context.ts';
import {
  CODE,
  type Descriptor,
  type DescriptorStatus,
  type Duration,
  MAX_UINT32,
  type RateLimitRequest,
  type RateLimitResponse,
  UNIT,
} from './messages.ts';
import { MAX_DESCRIPTORS, MAX_ENTRIES } from './plan.ts';

type Reader<T> = (value: unknown, pointer: string) => T;

const MAX_UINT64 = 2 ** 64;

function invalid(what: string, value: unknown, pointer: string): HttpError {
  const received = value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 60);
  return badRequest('ERR_INVALID_BODY', `Expected ${what}, got \`${received}\``, pointer);
}

const camelCaseOf = (name: string): string =>
  name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

const escapedForPointer = (name: string): string =>
  name.slice(0, 60).replaceAll('~', '~0').replaceAll('/', '~1');

/**
 * Returns a reader for an object. `fields` contains a reader for each field, by its name in
 * lowerCamelCase.
 */
function object<T>(what: string, fields: { readonly [Name in keyof T]-?: Reader<T[Name]> }) {
  const readers = new Map<string, Reader<unknown>>(Object.entries(fields));
  return (value: unknown, pointer: string): T => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw invalid(`${what} to be an object`, value, pointer);
    }
    const read = new Map<string, unknown>();
    for (const [given, field] of Object.entries(value)) {
      const name = camelCaseOf(given);
      const at = `${pointer}/${escapedForPointer(given)}`;
      const reader = readers.get(name);
      if (reader === undefined || (given !== name && given.toLowerCase() !== given)) {
        throw invalid(`${what} to have only ${[...readers.keys()].join(', ')}`, given, at);
      }
      if (read.has(name)) throw invalid(`${what} to have \`${name}\` once`, given, at);
      // In the JSON mapping, null means a missing field.
      if (field !== null) read.set(name, reader(field, at));
    }
    return Object.fromEntries(read) as T;
  };
}

function list<T>(what: string, max: number, reader: Reader<T>): Reader<readonly T[]> {
  return (value, pointer) => {
    if (!Array.isArray(value)) throw invalid(`${what} to be an array`, value, pointer);
    if (value.length > max) {
      throw invalid(`at most ${max} in ${what}`, value.length, pointer);
    }
    return value.map((each, at) => reader(each, `${pointer}/${at}`));
  };
}

function integer(max: number): Reader<number> {
  return (value, pointer) => {
    const isText = typeof value === 'string' && /^\d{1,20}$/.test(value);
    const number = isText ? Number(value) : value;
    if (Number.isInteger(number) && (number as number) >= 0 && (number as number) <= max) {
      return number as number;
    }
    throw invalid(`an integer from 0 to ${max}`, value, pointer);
  };
}

const uint32 = integer(MAX_UINT32);
const uint64 = integer(MAX_UINT64);

const text: Reader<string> = (value, pointer) => {
  if (typeof value === 'string') return value;
  throw invalid('text', value, pointer);
};

const flag: Reader<boolean> = (value, pointer) => {
  if (typeof value === 'boolean') return value;
  throw invalid('true or false', value, pointer);
};

const unit: Reader<number> = (value, pointer) => {
  const known = Object.entries(UNIT).find(([name, number]) => name === value || number === value);
  if (known !== undefined) return known[1];
  throw invalid(`one of ${Object.keys(UNIT).join(', ')}`, value, pointer);
};

const descriptor = object<Required<Descriptor>>('a descriptor', {
  entries: list('entries', MAX_ENTRIES, object('an entry', { key: text, value: text })),
  limit: object('a limit', { requestsPerUnit: uint32, unit }),
  hitsAddend: (value, pointer) => ({ value: uint64(value, pointer) }),
  isNegativeHits: flag,
});

const request = object<Required<RateLimitRequest>>('the body', {
  domain: text,
  descriptors: list('descriptors', MAX_DESCRIPTORS, descriptor),
  hitsAddend: uint32,
});

/** Returns the request. If it is invalid, throws an `HttpError` with the position. */
export const requestOfJson = (body: unknown): RateLimitRequest => request(body, '');

const nameOf = (names: Readonly<Record<string, number>>, number: number): string | undefined =>
  Object.keys(names).find((name) => names[name] === number);

/** Returns undefined for 0 and empty text, so that the JSON omits the field. */
const orUndefined = <T>(value: T): T | undefined => (value || undefined) as T | undefined;

/** Returns text such as `59.250s` or `59s`. */
function durationText({ seconds, nanos }: Duration): string {
  const fraction = nanos === 0 ? '' : `.${String(nanos / 1e6).padStart(3, '0')}`;
  return `${seconds}${fraction}s`;
}

function statusJson(status: DescriptorStatus): object {
  const { code, currentLimit: limit, limitRemaining, durationUntilReset: until } = status;
  return {
    code: nameOf(CODE, code),
    currentLimit: limit && {
      requestsPerUnit: orUndefined(limit.requestsPerUnit),
      unit: limit.unit === UNIT.UNKNOWN ? undefined : nameOf(UNIT, limit.unit),
      name: orUndefined(limit.name),
    },
    limitRemaining: orUndefined(limitRemaining),
    durationUntilReset: until && durationText(until),
  };
}

export function jsonOfResponse(response: RateLimitResponse): object {
  const { overallCode, statuses, responseHeadersToAdd: headers, dynamicMetadata } = response;
  return {
    overallCode: nameOf(CODE, overallCode),
    statuses: statuses.map(statusJson),
    responseHeadersToAdd: headers.length === 0 ? undefined : headers,
    dynamicMetadata,
  };
}
