/** Helpers for tests of sign-in: services with a token, requests of browsers, and the log. */
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import { makeLog } from '../../src/observe/log.ts';
import type { LogLevel } from '../../src/settings.ts';
import { policy, type Running, startRunning } from '../running.ts';
import { type PlainResponse, sendRequest } from './plain-request.ts';

export type Headers = Record<string, string>;

export const TOKEN = 'correct horse battery staple';

/** Lines logged since the test began, and all lines. */
export const lines: string[] = [];
const everLogged: string[] = [];
/** All secrets: the token, and sessions as a whole and in parts. */
const secrets: string[] = [TOKEN, 'horse'];

function write(line: string): void {
  lines.push(line);
  everLogged.push(line);
}

/** Returns the secrets that are in the log. */
export const leaks = () => secrets.filter((each) => everLogged.join('').includes(each));

export const audits = () => lines.map((line) => JSON.parse(line).audit).filter(Boolean);

export async function start(settings: object = {}, logLevel = 'trace'): Promise<Running> {
  const log = makeLog({ logLevel: logLevel as LogLevel }, { write });
  const config = { policies: [policy('few', 2, '1m')] };
  return startRunning({ config, settings: { adminToken: TOKEN, ...settings }, log });
}

/** Starts a service for all tests of a file. After them, checks that no secret was logged. */
export function startForAll(use: (running: Running) => void): void {
  let running: Running;
  beforeAll(async () => {
    running = await start();
    use(running);
  });
  afterAll(async () => {
    await running.close();
    expect(leaks()).toEqual([]);
  });
  beforeEach(() => void lines.splice(0));
}

export const hostOf = ({ service }: Running): string => `127.0.0.1:${service.http.port}`;

export async function request(
  running: Running,
  method: string,
  path: string,
  headers: Headers = {},
  body?: unknown,
  more = {},
): Promise<PlainResponse> {
  const url = `http://${hostOf(running)}${path}`;
  const response = await sendRequest(url, method, headers, body, more);
  for (const each of response.headers['set-cookie'] ?? []) secrets.push(...partsOf(each));
  return response;
}

/** Returns the value of a new cookie and its secret parts. */
function partsOf(field: string): readonly string[] {
  const [, value] = /=([^;]+);/.exec(field) ?? [];
  if (!value?.startsWith('v1.')) return [];
  const [, , id, signature] = value.split('.');
  return [value, id, signature];
}

let address = 2;
/** Returns another local address each time, so that attempts are counted separately. */
export const fresh = () => ({ localAddress: `127.1.${address >> 8}.${address++ & 255}` });

export const signIn = (running: Running, token: unknown = TOKEN, headers: Headers = {}) =>
  request(running, 'POST', '/v1/session', headers, { token }, fresh());

/** Headers that browsers send with requests of the dashboard. */
export const own = (running: Running, cookie: string): Headers => ({
  cookie,
  origin: `http://${hostOf(running)}`,
  'sec-fetch-site': 'same-origin',
});

/** Headers that browsers send with requests of other sites. */
export const foreign: readonly Headers[] = [
  { origin: 'https://evil.example' },
  { origin: 'null' },
  { 'sec-fetch-site': 'cross-site' },
  { 'sec-fetch-site': 'same-site' },
];
