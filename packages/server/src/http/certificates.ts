/**
 * The TLS certificate and private key of HTTP and gRPC. A configuration reload reads both files
 * again. New connections get the new certificate; open connections keep the old one.
 */
import { createSecureContext } from 'node:tls';
import { type Config, ConfigError } from '../config/model.ts';
import { readRegularFile } from '../regular-file.ts';
import type { Settings } from '../settings.ts';
import { withTimeout } from '../with-timeout.ts';

const MAX_PEM_BYTES = 1024 * 1024;
const READ_DEADLINE_MS = 10_000;

/** The contents of the PEM files. */
export interface KeyPair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

export class Certificates {
  #pair: KeyPair;
  #next: KeyPair;
  readonly #listeners: ((pair: KeyPair) => void)[] = [];

  private constructor(
    private readonly certPath: string,
    private readonly keyPath: string,
    pair: KeyPair,
  ) {
    this.#pair = pair;
    this.#next = pair;
  }

  /** Resolves to undefined without TLS. Rejects with a `ConfigError` if the files are invalid. */
  static async open({
    tlsCert,
    tlsKey,
  }: Pick<Settings, 'tlsCert' | 'tlsKey'>): Promise<Certificates | undefined> {
    if (tlsCert === undefined || tlsKey === undefined) return undefined;
    return new Certificates(tlsCert, tlsKey, await readPair(tlsCert, tlsKey));
  }

  get pair(): KeyPair {
    return this.#pair;
  }

  onChange(listener: (pair: KeyPair) => void): void {
    this.#listeners.push(listener);
  }

  /** Reads the files for a later `use`. Rejects with a `ConfigError` if they are invalid. */
  async read(): Promise<void> {
    this.#next = await readPair(this.certPath, this.keyPath);
  }

  /** Uses the certificate that was read last for new connections. */
  use(): void {
    const next = this.#next;
    if (next.cert.equals(this.#pair.cert) && next.key.equals(this.#pair.key)) return;
    this.#pair = next;
    for (const listener of this.#listeners) listener(next);
  }
}

/**
 * Returns a function that loads configuration and certificates. The function rejects if either is
 * invalid.
 */
export function loadWith(
  load: () => Promise<Config>,
  certificates: Certificates | undefined,
): () => Promise<Config> {
  if (certificates === undefined) return load;
  return async () => {
    const config = await load();
    await certificates.read();
    return config;
  };
}

async function readPair(certPath: string, keyPath: string): Promise<KeyPair> {
  const cert = await pemAt(certPath);
  const key = await pemAt(keyPath);
  try {
    createSecureContext({ cert, key });
  } catch (error) {
    const what = `Expected a certificate and its private key in ${keyPath}`;
    throw problem(certPath, `${what}, got an error: ${(error as Error).message}`);
  }
  return { cert, key };
}

async function pemAt(path: string): Promise<Buffer> {
  const reading = readRegularFile(path, MAX_PEM_BYTES).catch((error: Error) => error);
  const read = await withTimeout(READ_DEADLINE_MS, reading);
  if (Buffer.isBuffer(read)) return read;
  const cause = read?.message ?? `no response within ${READ_DEADLINE_MS} ms`;
  const { code } = (read ?? {}) as NodeJS.ErrnoException;
  throw Object.assign(problem(path, `Expected a PEM file, got ${cause}`), { code });
}

const problem = (file: string, message: string): ConfigError =>
  new ConfigError([{ file, line: 1, column: 1, message }]);
