/** Helpers of the adapter contract: servers under test, requests and assertions. */
import { systemClock } from '../clock.ts';
import type { RequestOptions } from '../http/options.ts';
import type { Store } from '../store.ts';

// biome-ignore lint/suspicious/noExplicitAny: the type of requests differs between adapters.
export type AnyRequest = any;

export interface RunningServer {
  readonly port: number;
  /** Returns the number of requests that reached the handler. */
  reached(): number;
  close(): Promise<void>;
}

/**
 * An adapter and how to serve it on 127.0.0.1, on any free port. The handler behind the limit
 * responds with the status in the header `x-status` (default 200) and the body `hello`, after the
 * number of ms in the header `x-wait`. With the header `x-throw`, it then throws an error instead.
 */
export interface AdapterUnderTest {
  serve(options: RequestOptions<AnyRequest>): Promise<RunningServer>;
  /** Returns a header of the request that the adapter passes to functions. */
  header(request: AnyRequest, name: string): string | undefined;
}

export interface AdapterCase {
  readonly name: string;
  run(adapter: AdapterUnderTest, openStore: () => Store | Promise<Store>): Promise<void>;
}

/** The objects that the test of a case receives. */
export interface CaseContext {
  readonly adapter: AdapterUnderTest;
  readonly store: Store;
  readonly server: RunningServer;
  request(headers?: Record<string, string>, method?: string): Promise<Response>;
}

/** Throws unless both values have the same JSON. */
export function equal(what: string, got: unknown, expected: unknown): void {
  const [left, right] = [JSON.stringify(got), JSON.stringify(expected)];
  if (left !== right) throw new Error(`${what}: expected ${right}, got ${left}`);
}

const pause = (delayMs: number): Promise<void> =>
  new Promise((resolve) => {
    systemClock.schedule(delayMs, resolve);
  });

/** Waits until `read` returns the expected value. Adapters may do work after the response. */
export async function eventually(
  what: string,
  read: () => unknown,
  expected: unknown,
  attempts = 2000,
): Promise<void> {
  const got = await read();
  if (JSON.stringify(got) === JSON.stringify(expected)) return;
  if (attempts === 0) equal(what, got, expected);
  await pause(5);
  await eventually(what, read, expected, attempts - 1);
}

export type OptionsOf = (adapter: AdapterUnderTest, store: Store) => RequestOptions<AnyRequest>;

/** Creates a case that runs on a server with the given options and a new store. */
export function adapterCase(
  name: string,
  optionsOf: OptionsOf,
  test: (world: CaseContext) => Promise<void>,
): AdapterCase {
  return {
    name,
    async run(adapter, openStore) {
      const store = await openStore();
      const server = await adapter.serve({ store, ...optionsOf(adapter, store) });
      const request = (headers: Record<string, string> = {}, method = 'GET'): Promise<Response> =>
        fetch(`http://127.0.0.1:${server.port}/`, { headers, method });
      try {
        await test({ adapter, store, server, request });
      } finally {
        await server.close();
        await store.close();
      }
    },
  };
}
