/** Access logs for tests. */

export interface LoggedRequest {
  /** Seconds after noon of 2026-10-10, in UTC. */
  readonly at: number;
  readonly client?: string;
  readonly method?: string;
  readonly path?: string;
  readonly agent?: string;
}

export const NOON_MS = Date.UTC(2026, 9, 10, 12, 0, 0);

export function combinedLog(requests: readonly LoggedRequest[]): string {
  const lines = [...requests]
    .sort((a, b) => a.at - b.at)
    .map(({ at, client = '198.51.100.7', method = 'GET', path = '/', agent = 'curl/8' }) => {
      const time = new Date(NOON_MS + 1000 * at).toISOString().slice(11, 19);
      const stamp = `10/Oct/2026:${time} +0000`;
      return `${client} - - [${stamp}] "${method} ${path} HTTP/1.1" 200 512 "-" "${agent}"`;
    });
  return `${lines.join('\n')}\n`;
}

/** Requests of one client, evenly over a number of seconds. */
export const burst = (
  count: number,
  overS: number,
  more: Partial<LoggedRequest> = {},
): readonly LoggedRequest[] =>
  Array.from({ length: count }, (_, at) => ({
    ...more,
    at: (more.at ?? 0) + Math.floor((at * overS) / count),
  }));

/** 40 clients with 6 requests in 5 minutes each, and one with 300 in 4 minutes. */
export const mixed = (): readonly LoggedRequest[] => [
  ...Array.from({ length: 40 }, (_, number) =>
    burst(6, 300, { client: `203.0.113.${number}`, at: number, path: `/items/${number}` }),
  ).flat(),
  ...burst(300, 240, { path: '/api/orders/17' }),
];
