/** Formats requests as log lines. */
import { clfText, isoText } from '../calendar.ts';
import type { GeneratedRequest } from './traffic.ts';

export const LINE_FORMATS = ['combined', 'json-lines'] as const;
export type LineFormat = (typeof LINE_FORMATS)[number];

/**
 * Returns a formatter of times. It reuses the last text, because adjacent lines mostly have the
 * same second.
 */
function secondText(): (timeMs: number) => string {
  let lastSecond = Number.NaN;
  let text = '';
  return (timeMs) => {
    const second = Math.floor(timeMs / 1000);
    if (second !== lastSecond) {
      lastSecond = second;
      text = clfText(timeMs);
    }
    return text;
  };
}

function combinedLine(): (request: GeneratedRequest) => string {
  const timeText = secondText();
  return (request) => {
    const { client, user, timeMs, method, target, status, bytes, agent } = request;
    const what = `"${method} ${target} HTTP/1.1" ${status} ${bytes} "-" "${agent}"`;
    return `${client} - ${user || '-'} [${timeText(timeMs)}] ${what}`;
  };
}

const jsonLine = (request: GeneratedRequest): string => {
  const { client, user, timeMs, method, target, host, status, bytes, agent } = request;
  const who = { client, ...(user !== '' && { user }), http_user_agent: agent };
  return JSON.stringify({
    time: isoText(timeMs),
    method,
    path: target,
    host,
    status,
    bytes,
    ...who,
  });
};

/**
 * Returns a function that formats a request as a line, without a newline. The times of combined
 * lines are in whole seconds.
 */
export const lineWriter = (format: LineFormat): ((request: GeneratedRequest) => string) =>
  format === 'combined' ? combinedLine() : jsonLine;
