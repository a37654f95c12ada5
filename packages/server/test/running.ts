/** Starts a service for a test on a free port of 127.0.0.1. The configuration is given as data. */
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

/** Returns the configuration of a policy: `policy('perMinute', 100, '1m')`. */
export const policy = (name: string, limit: number, window: string, more: object = {}) => {
  const { shadow = false, ...options } = more as { shadow?: boolean };
  return { name, options: { limit, window, ...options }, shadow };
};

/** Returns the configuration of a concurrency limit. */
export const concurrencyPolicy = (name: string, concurrency: number, lease = '30s') => ({
  ...{ name, options: { concurrency, lease }, shadow: false },
});

export interface RunningOptions {
  readonly config?: Partial<Config>;
  readonly load?: () => Promise<Config>;
  /** Settings in the form of flags. */
  readonly settings?: Partial<Record<SettingName, unknown>>;
  readonly store?: OpenStore;
  /** Default: nothing is logged. */
  readonly log?: Logger;
}

export interface ServiceResponse {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read any field of the body.
  readonly json: any;
}

export class Running {
  constructor(readonly service: Service) {}

  get url(): string {
    return this.service.url;
  }

  async request(
    method: string,
    path: string,
    body?: unknown,
    headers = {},
  ): Promise<ServiceResponse> {
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(this.url + path, { method, headers, ...init });
    const text = await response.text();
    const isJson = (response.headers.get('content-type') ?? '').includes('json');
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson && text !== '' ? JSON.parse(text) : undefined,
    };
  }

  post(path: string, body: unknown, headers = {}): Promise<ServiceResponse> {
    return this.request('POST', path, body, headers);
  }

  get(path: string, headers = {}): Promise<ServiceResponse> {
    return this.request('GET', path, undefined, headers);
  }

  close(): Promise<void> {
    return this.service.close();
  }
}

/** Returns settings with a short drain time, because tests leave idle connections. */
export function settingsOf(given: Partial<Record<SettingName, unknown>> = {}): Settings {
  return readSettings({ listen: '127.0.0.1:0', drainMs: '100ms', ...given }, {}, {}).settings;
}

export async function startRunning(options: RunningOptions = {}): Promise<Running> {
  const settings = settingsOf(options.settings);
  const { config: given = {} } = options;
  // A loaded configuration is not copied: its fingerprint is stored by object identity.
  const config = 'files' in given ? (given as Config) : configOf(given);
  const listeners = { onWarning: () => {}, onConnection: () => {} };
  const store = options.store ?? (await openStore(settings, listeners));
  const load = options.load ?? (async () => config);
  // Audit lines are written at every level.
  const log = options.log ?? pino({ level: 'silent' }, { write() {} });
  return new Running(await startService({ settings, store, log, config, load }));
}
