/** A service for a test: on a free port of 127.0.0.1, with the configuration given as data. */
import { type Logger, pino } from 'pino';
import type { Config } from '../src/config/model.ts';
import { type Service, startService } from '../src/service.ts';
import { readSettings, type SettingName, type Settings } from '../src/settings.ts';
import { type OpenStore, openStore } from '../src/stores/index.ts';

export const configOf = (parts: Partial<Config>): Config => ({
  files: [],
  policies: [],
  rules: [],
  domains: [],
  overrides: [],
  warnings: [],
  settings: {},
  ...parts,
});

/** `policy('perMinute', 100, '1m')` */
export const policy = (name: string, limit: number, window: string, more: object = {}) => {
  const { shadow = false, ...options } = more as { shadow?: boolean };
  return { name, options: { limit, window, ...options }, shadow };
};

export interface RunningOptions {
  readonly config?: Partial<Config>;
  readonly load?: () => Promise<Config>;
  /** As flags. */
  readonly settings?: Partial<Record<SettingName, unknown>>;
  readonly store?: OpenStore;
  /** Default: nothing is logged. */
  readonly log?: Logger;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came.
  readonly json: any;
}

export class Running {
  constructor(readonly service: Service) {}

  get url(): string {
    return this.service.url;
  }

  async ask(method: string, path: string, body?: unknown, headers = {}): Promise<Answer> {
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(this.url + path, { method, headers, ...init });
    const text = await answer.text();
    const isJson = (answer.headers.get('content-type') ?? '').includes('json');
    return {
      status: answer.status,
      headers: answer.headers,
      text,
      json: isJson && text !== '' ? JSON.parse(text) : undefined,
    };
  }

  post(path: string, body: unknown, headers = {}): Promise<Answer> {
    return this.ask('POST', path, body, headers);
  }

  get(path: string, headers = {}): Promise<Answer> {
    return this.ask('GET', path, undefined, headers);
  }

  close(): Promise<void> {
    return this.service.close();
  }
}

/** With a short drain time, because tests leave idle connections. */
export function settingsOf(given: Partial<Record<SettingName, unknown>> = {}): Settings {
  return readSettings({ listen: '127.0.0.1:0', drainMs: '100ms', ...given }, {}, {}).settings;
}

export async function startRunning(options: RunningOptions = {}): Promise<Running> {
  const settings = settingsOf(options.settings);
  const { config: given = {} } = options;
  // Keeps the identity of a loaded object, by which its fingerprint is stored.
  const config = 'files' in given ? (given as Config) : configOf(given);
  const listeners = { onWarning: () => {}, onConnection: () => {} };
  const store = options.store ?? (await openStore(settings, listeners));
  const load = options.load ?? (async () => config);
  // Audit lines are written at every level.
  const log = options.log ?? pino({ level: 'silent' }, { write() {} });
  return new Running(await startService({ settings, store, log, config, load }));
}
