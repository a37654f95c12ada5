/**
 * Fields that go out with the head of an answer of Node's, whatever the head says. To set them
 * before would close the fast way that Node has for a head that is written in one call, as
 * @hono/node-server does.
 */
import type { OutgoingHttpHeader, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { joinedField } from './headers.ts';
import type { Field, RequestDecision } from './request-limiter.ts';

/** The fields that are to go out with the head of an answer. */
const FIELDS = Symbol('fields');

/** All of them as text, if nothing else that the head says is in their way. */
const LINES = Symbol('lines');

type Head = OutgoingHttpHeaders | OutgoingHttpHeader[] | null | undefined;

/** Makes the text of a head, whose first line is made already. */
type StoreHeader = (this: Announcing, firstLine: string, head: Head) => void;

type Announcing = ServerResponse & {
  [FIELDS]?: readonly Field[];
  [LINES]?: string | undefined;
  _storeHeader?: StoreHeader;
};

/** What is to be sent. */
type Told = Pick<RequestDecision<never>, 'fields' | 'lines'>;

/** What answers of Node's are asked for their fields with. */
type Methods = Pick<
  Required<Announcing>,
  '_storeHeader' | 'getHeader' | 'getHeaders' | 'hasHeader' | 'removeHeader'
>;

/** Node's own methods, once an answer has shown that its head is made by them. */
let nodes: Methods | undefined;

/** Has the fields of a verdict sent, unless the answer has begun. */
export function sendFields(response: Announcing, told: Told): void {
  if (told.fields.length === 0 || response.headersSent || sendAsText(response, told)) return;
  response[FIELDS] = told.fields;
  response.writeHead = writeHeadOf(response);
}

/**
 * Has fields sent as text, and whoever asks the answer for them finds them, as hooks of a framework
 * may do. Answers false where they cannot be.
 */
export function announce(response: Announcing, told: Told): boolean {
  if (!sendAsText(response, told)) return false;
  response.getHeader = getHeader;
  response.getHeaders = getHeaders;
  response.hasHeader = hasHeader;
  response.removeHeader = removeHeader;
  return true;
}

/** Answers false, with nothing done, where there is no such way, and of the first answer of all. */
function sendAsText(response: Announcing, { fields, lines }: Told): boolean {
  const before = response[FIELDS];
  if (before !== undefined) {
    response[FIELDS] = joinedFields(before, fields);
    response[LINES] = undefined;
    return true;
  }
  if (nodes === undefined) {
    learnFrom(response);
    return false;
  }
  if (response._storeHeader !== nodes._storeHeader) return false;
  response[FIELDS] = fields;
  response[LINES] = lines;
  response._storeHeader = storeHeader;
  return true;
}

/** What limiters in a row say, each field once. */
function joinedFields(before: readonly Field[], later: readonly Field[]): readonly Field[] {
  const all = new Map(before);
  for (const [name, value] of later) all.set(name, joinedField(all.get(name), value));
  return [...all];
}

/** Finds out how heads are made here: other runtimes have answers like Node's, but no such text. */
function learnFrom(response: Announcing): void {
  const { _storeHeader, getHeader, getHeaders, hasHeader, removeHeader } = response;
  if (_storeHeader === undefined || Object.hasOwn(response, '_storeHeader')) return;
  response._storeHeader = function (firstLine, head) {
    if (/^HTTP\/1\.[01] \d{3} .*\r\n$/.test(firstLine)) {
      nodes = { _storeHeader, getHeader, getHeaders, hasHeader, removeHeader };
    }
    return _storeHeader.call(this, firstLine, head);
  };
}

/**
 * Adds the fields to the first line, as text. Node would search them for characters that must not
 * be there and for names that mean something to it, which costs more than all the rest.
 */
function storeHeader(this: Announcing, firstLine: string, head: Head): void {
  const fields = this[FIELDS]!;
  let lines = this[LINES];
  if (lines === undefined) {
    if (saysAnyOf(fields, head)) {
      nodes!._storeHeader.call(this, firstLine, joinedHead(this, head));
      return;
    }
    lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('');
  }
  nodes!._storeHeader.call(this, firstLine + lines, head);
}

/** A head that says something of limits itself, with the fields. */
function joinedHead(response: Announcing, head: Head): Head {
  if (response.getHeaderNames().length === 0) return withFields(response, head);
  // What has been set is one object, and that is the head.
  for (const [name, value] of response[FIELDS]!) {
    response.setHeader(name, joinedField(setBefore(response, name), value));
  }
  return head;
}

/** What has been set under a name, if anything; not what is announced. */
function setBefore(response: Announcing, name: string): unknown {
  const own = response.getHeader === getHeader ? nodes!.getHeader : response.getHeader;
  return own.call(response, name);
}

function getHeader(this: Announcing, name: string): ReturnType<Methods['getHeader']> {
  return nodes!.getHeader.call(this, name) ?? announced(this, name)?.[1];
}

function getHeaders(this: Announcing): OutgoingHttpHeaders {
  const all = nodes!.getHeaders.call(this);
  for (const [name, value] of this[FIELDS]!) all[name.toLowerCase()] ??= value;
  return all;
}

function hasHeader(this: Announcing, name: string): boolean {
  return nodes!.hasHeader.call(this, name) || announced(this, name) !== undefined;
}

function removeHeader(this: Announcing, name: string): void {
  nodes!.removeHeader.call(this, name);
  if (announced(this, name) === undefined) return;
  this[FIELDS] = this[FIELDS]!.filter(([each]) => !isSameName(each, name));
  this[LINES] = undefined;
}

function announced(response: Announcing, name: string): Field | undefined {
  for (const field of response[FIELDS]!) if (isSameName(field[0], name)) return field;
  return undefined;
}

/** Whether a head has fields of the same names. One that is no plain object may well have. */
function saysAnyOf(fields: readonly Field[], head: Head): boolean {
  if (Array.isArray(head)) return true;
  for (const name in head) {
    for (const { 0: own } of fields) if (isSameName(name, own)) return true;
  }
  return false;
}

function isSameName(name: string, other: string): boolean {
  return name.length === other.length && name.toLowerCase() === other.toLowerCase();
}

/** Adds the fields to the head as it is given: slower, and always right. */
function writeHeadOf(response: Announcing): ServerResponse['writeHead'] {
  const isNodes = !Object.hasOwn(response, 'writeHead');
  const writeHead = response.writeHead as (status: number, ...more: unknown[]) => ServerResponse;
  return function (this: Announcing, status: number, text: unknown, more: Head) {
    const hasText = typeof text === 'string';
    const given = hasText ? more : (more ?? (text as Head));
    const list = withFields(this, given);
    // Somebody else who listens for the head in the same way is left with an object if it was one.
    const head = isNodes || Array.isArray(given) ? list : asObject(list);
    return hasText ? writeHead.call(this, status, text, head) : writeHead.call(this, status, head);
  } as ServerResponse['writeHead'];
}

/** A head with the fields, names and values in turn. */
function withFields(response: Announcing, head: Head): OutgoingHttpHeader[] {
  const list = namesAndValues(head);
  for (const { 0: name, 1: value } of response[FIELDS]!) addField(response, list, name, value);
  return list;
}

/** The fields that an answer is given with its status, names and values in turn. */
function namesAndValues(head: Head): OutgoingHttpHeader[] {
  if (Array.isArray(head)) {
    return Array.isArray(head[0]) ? (head.flat() as OutgoingHttpHeader[]) : [...head];
  }
  const all: OutgoingHttpHeader[] = [];
  if (head) for (const name of Object.keys(head)) all.push(name, head[name]!);
  return all;
}

function asObject(list: readonly OutgoingHttpHeader[]): OutgoingHttpHeaders {
  const all: OutgoingHttpHeaders = {};
  for (let at = 0; at < list.length; at += 2) all[list[at] as string] = list[at + 1];
  return all;
}

/** Adds a field to a head. What the answer says itself comes after it, or counts in its place. */
function addField(
  response: Announcing,
  head: OutgoingHttpHeader[],
  name: string,
  value: string,
): void {
  for (let place = 0; place < head.length; place += 2) {
    const other = head[place] as string;
    if (!isSameName(other, name)) continue;
    head[place + 1] = joinedField(value, String(head[place + 1]));
    return;
  }
  head.push(name, joinedField(setBefore(response, name), value));
}
