/**
 * The values that settings have, from text (flags and variables) or from a plain value (the file).
 * Each reader answers undefined if a value is not right.
 */
import { clientAddress } from 'sluice/http';
import { storeProblem } from './stores/index.ts';

/** Where a server listens. */
export interface Listen {
  readonly host: string;
  readonly port: number;
}

export const integer =
  (least: number, most: number) =>
  (given: unknown): number | undefined => {
    const isText = typeof given === 'string' && /^\d{1,15}$/.test(given);
    const value = isText ? Number(given) : given;
    return Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most
      ? (value as number)
      : undefined;
  };

export const text = (given: unknown): string | undefined =>
  typeof given === 'string' && given !== '' ? given : undefined;

export const oneOf =
  <T extends string>(...words: readonly T[]) =>
  (given: unknown): T | undefined =>
    words.includes(given as T) ? (given as T) : undefined;

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000 };
const MAX_MS = 3_600_000;

/** `15`, `15ms`, `10s` or `1m`: at least a millisecond and at most an hour. */
export function duration(given: unknown): number | undefined {
  const [, amount, unit] =
    typeof given === 'string' ? (/^(\d{1,9})(ms|s|m)$/.exec(given) ?? []) : [];
  const read = integer(1, MAX_MS);
  return amount === undefined ? read(given) : read(Number(amount) * UNIT_MS[unit]);
}

/** `127.0.0.1:8080`, `[::1]:8080`, `:8080` for all addresses, or a port of 127.0.0.1. */
export function readListen(given: unknown): Listen | undefined {
  const written = typeof given === 'number' ? String(given) : text(given);
  const [, host = '', port] =
    /^(?:(\[[\da-fA-F:.]+\]|[\w.-]*):)?(\d{1,5})$/.exec(written ?? '') ?? [];
  if (written === undefined || port === undefined || Number(port) > 65_535) return undefined;
  const named = host.replace(/^\[|\]$/g, '');
  return { host: written.includes(':') ? named || '::' : '127.0.0.1', port: Number(port) };
}

export const listenText = ({ host, port }: Listen): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;

/** Whether only this machine can come. */
export const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);

export function share(given: unknown): number | undefined {
  const value = typeof given === 'string' && given !== '' ? Number(given) : given;
  return typeof value === 'number' && value > 0 && value <= 1 ? value : undefined;
}

const isTexts = (list: unknown): list is readonly string[] =>
  Array.isArray(list) && list.length > 0 && list.every((each) => text(each) !== undefined);

const listOf = (given: unknown): unknown =>
  typeof given === 'string' ? given.split(',').map((each) => each.trim()) : given;

/** A number of proxies, or networks: as a list, or as text with commas between. */
export function proxies(given: unknown): number | readonly string[] | undefined {
  const count = integer(1, 32)(given);
  if (count !== undefined) return count;
  const networks = listOf(given);
  if (!isTexts(networks)) return undefined;
  try {
    // The engine knows which networks there are, and refuses those that are everybody's.
    clientAddress({ trustProxy: networks });
    return networks;
  } catch {
    return undefined;
  }
}

export function files(given: unknown): readonly string[] | undefined {
  const list = listOf(given);
  return isTexts(list) ? list : undefined;
}

export const store = (given: unknown): string | undefined =>
  typeof given === 'string' && storeProblem(given) === undefined ? given : undefined;

/** What is wrong with a store address, without any part of it that could be a password. */
export const storeHint = (given: unknown): string =>
  typeof given === 'string' ? (storeProblem(given) ?? 'a store') : 'something else';

const SHORTEST_TOKEN = 16;

/** What a header can carry, and nobody guesses. Spaces around it would be lost on the way. */
export const token = (given: unknown): string | undefined =>
  typeof given === 'string' &&
  given.length >= SHORTEST_TOKEN &&
  /^[^\s\p{Cc}](?:\P{Cc}*[^\s\p{Cc}])?$/u.test(given)
    ? given
    : undefined;

/** What may be told of a token: how long it is. */
export function tokenHint(given: unknown): string {
  if (typeof given !== 'string') return 'something else';
  if (given.length >= SHORTEST_TOKEN) return `${given.length}, not all of them visible`;
  return given.length === 1 ? '1 character' : `${given.length} characters`;
}
