/** Runs examples as a user does, in processes of their own. Needs a build. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { type IncomingHttpHeaders, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, expect } from 'vitest';

export const examples = new URL('../../../examples/', import.meta.url).pathname;
/** The working directory of the examples. */
export const folder = mkdtempSync(join(tmpdir(), 'sluice-examples-'));
const children = new Set<ChildProcess>();

afterAll(() => {
  for (const child of children) child.kill();
  rmSync(folder, { recursive: true });
});

export interface Run {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly ended: Promise<number | null>;
}

export function run(name: string, env: Readonly<Record<string, string>>): Run {
  const options = { cwd: folder, env: { ...process.env, ...env } };
  const child = spawn(process.execPath, [join(examples, name, 'main.mjs')], options);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  children.add(child);
  const ended = new Promise<number | null>((resolve) => {
    child.once('close', (code) => {
      children.delete(child);
      resolve(code);
    });
  });
  return { child, output: () => output, ended };
}

export interface RequestOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** The loopback address to send from. */
  readonly from?: string;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export type Send = (path?: string, options?: RequestOptions) => Promise<HttpResponse>;

function sendTo(
  url: string,
  { method, headers, body, from }: RequestOptions,
): Promise<HttpResponse> {
  const json = body === undefined ? undefined : JSON.stringify(body);
  const options = {
    method: method ?? (json === undefined ? 'GET' : 'POST'),
    headers: { ...(json !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(from !== undefined && { localAddress: from }),
    agent: false,
  };
  return new Promise((resolve, reject) => {
    const sent = request(url, options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => {
        text += part;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode!, headers: response.headers, body: text }),
      );
    });
    sent.on('error', reject).end(json);
  });
}

/** Runs an example server on a free port until `use` resolves. */
export async function serving(
  name: string,
  use: (send: Send, url: string) => Promise<void>,
): Promise<void> {
  const { child, output, ended } = run(name, { PORT: '0' });
  let over = false;
  ended.then(() => {
    over = true;
  });
  while (!output().includes('\n') && !over) await sleep(10);
  const [, url] = output().match(/^Listening on (http:\/\/127\.0\.0\.1:\d+)\n$/) ?? [];
  if (url === undefined) throw new Error(`${name} printed ${output()}`);
  try {
    await use((path = '/', options = {}) => sendTo(url + path, options), url);
    expect(output(), 'nothing else is printed').toBe(`Listening on ${url}\n`);
  } finally {
    child.kill();
    await ended;
  }
}

export async function statuses(
  count: number,
  send: () => Promise<HttpResponse>,
): Promise<number[]> {
  const all: number[] = [];
  for (let i = 0; i < count; i++) all.push((await send()).status);
  return all;
}
