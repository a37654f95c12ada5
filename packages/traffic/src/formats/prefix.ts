/** Prefixes that log collectors write before the lines of a server. */
import { parseObject } from './json.ts';

export interface Prefix {
  readonly name: string;
  /** Returns the line without the prefix, or undefined if the line has no such prefix. */
  remove(line: string): string | undefined;
}

const prefixWith = (name: string, ...patterns: readonly RegExp[]): Prefix => ({
  name,
  remove: (line) => {
    for (const pattern of patterns) {
      const found = pattern.exec(line);
      if (found !== null) return line.slice(found[0].length);
    }
    return undefined;
  },
});

const ISO = String.raw`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)`;
const TAG = String.raw`\S+ [^\s:[]+(?:\[\d+\])?: `;

/** Lines of Docker's json-file driver: `{"log":"...\n","stream":"stdout","time":"..."}`. */
const docker: Prefix = {
  name: 'docker',
  remove: (line) => {
    if (!line.startsWith('{"log":')) return undefined;
    const { log } = parseObject(line) ?? {};
    return typeof log === 'string' ? log.replace(/\r?\n$/, '') : undefined;
  },
};

export const PREFIXES: readonly Prefix[] = [
  docker,
  // Container runtimes of Kubernetes: `2026-10-10T13:55:36.1Z stdout F `
  prefixWith('cri', new RegExp(`^${ISO} (?:stdout|stderr) F `)),
  // `kubectl logs --prefix` and `docker compose logs`: `[pod/web-1/nginx] `, `web-1  | `
  prefixWith('kubernetes', /^\[pod\/[^\]\s]+\] /, /^[\w.-]+ +\| /),
  prefixWith(
    'syslog',
    new RegExp(String.raw`^(?:<\d{1,3}>)?[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ${TAG}`),
    new RegExp(String.raw`^<\d{1,3}>1 ${ISO} \S+ \S+ \S+ \S+ (?:-|(?:\[[^\]]*\])+) (?:\uFEFF)?`),
    new RegExp(`^(?:<\\d{1,3}>)?${ISO} ${TAG}`),
  ),
  // `kubectl logs --timestamps` and `docker logs --timestamps`
  prefixWith('timestamp', new RegExp(`^${ISO} `)),
];
