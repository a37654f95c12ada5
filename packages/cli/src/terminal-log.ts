/** Formats log lines for a terminal: time, level, message and fields. */
import { type Colour, type Output, visible } from './output.ts';

const COLOURS: Readonly<Record<string, Colour>> = {
  fatal: 'red',
  error: 'red',
  warn: 'yellow',
  info: 'green',
};

/**
 * Returns a text such as `name=value`. For an error, the value is only the message. The JSON log
 * also has the stack.
 */
function fieldText([name, value]: [string, unknown]): string {
  const isError = typeof value === 'object' && value !== null && 'stack' in value;
  const shown = isError ? (value as unknown as Error).message : value;
  return `${name}=${typeof shown === 'string' ? shown : JSON.stringify(shown)}`;
}

/** Returns a function that converts a JSON log line to a line for a terminal. */
export function terminalLine({ paint }: Pick<Output, 'paint'>): (line: string) => string {
  return (line) => {
    const { level, time, name: _name, msg, ...fields } = JSON.parse(line);
    const clock = String(time).slice(11, 19);
    const rest = visible(Object.entries(fields).map(fieldText).join(' '));
    const label = paint(COLOURS[level] ?? 'dim', String(level).padEnd(5));
    const text = `${paint('dim', clock)} ${label} ${visible(String(msg ?? ''))}`;
    return rest === '' ? `${text}\n` : `${text} ${paint('dim', rest)}\n`;
  };
}
