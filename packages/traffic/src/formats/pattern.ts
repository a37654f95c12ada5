/**
 * Logs in a custom format: a `log_format` of nginx, with variables such as `$remote_addr`, or a
 * regular expression with named groups. Variables and groups have the same names as CSV columns.
 */
import type { Format } from '../entry.ts';
import { CostField, type Names, namedEntry, type Part } from './named.ts';
import { unescaped } from './text.ts';

/** Thrown if a pattern is invalid. The message continues `Expected the pattern to have`. */
export class PatternError extends Error {}

const VARIABLE = /\$(?:\{(\w+)\}|(\w+))/g;
const GROUP = /\(\?<(\w+)>/;

const escapeLiteral = (literal: string): string =>
  literal.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&').replace(/\s+/g, '\\s+');

/**
 * Returns the source of an expression that matches a value before the character `next`. A quoted
 * value may contain escapes.
 */
function valueBefore(next: string): string {
  if (next === '') return '.*';
  if (next === '"') return String.raw`(?:[^"\\]|\\.)*`;
  return /\s/.test(next) ? '\\S*' : `[^${next.replace(/[\\\]^-]/g, '\\$&')}]*`;
}

/**
 * Converts a `log_format` to a regular expression. Returns it with the names of its groups in
 * order.
 */
function parseLogFormat(pattern: string): readonly [RegExp, readonly string[]] {
  const names: string[] = [];
  let source = '^';
  let end = 0;
  for (const found of pattern.matchAll(VARIABLE)) {
    const after = found.index + found[0].length;
    const value = valueBefore(pattern[after] ?? '');
    source += `${escapeLiteral(pattern.slice(end, found.index))}(${value})`;
    names.push(found[1] ?? found[2]);
    end = after;
  }
  return [new RegExp(source + escapeLiteral(pattern.slice(end))), names];
}

function parseExpression(pattern: string): readonly [RegExp, readonly string[]] {
  try {
    const expression = new RegExp(pattern);
    // With an empty alternative, the expression matches any text and so returns all group names.
    const all = new RegExp(`${pattern}|`).exec('')!.groups ?? {};
    return [expression, Object.keys(all)];
  } catch (error) {
    throw new PatternError(`a valid regular expression, got an error: ${(error as Error).message}`);
  }
}

/** Throws a `PatternError` if the pattern is invalid, or has no time or no client. */
export function patternFormat(pattern: string, columns: Names): Format {
  const isExpression = GROUP.test(pattern);
  const [expression, names] = isExpression ? parseExpression(pattern) : parseLogFormat(pattern);
  const nameOf = (part: Part): string | undefined =>
    columns[part].find((each) => names.includes(each));
  if (nameOf('time') === undefined || nameOf('client') === undefined) {
    throw new PatternError(
      'a time and a client, such as $time_local and $remote_addr, or (?<time>...) and ' +
        `(?<client>...), got \`${pattern}\``,
    );
  }
  const costName = nameOf('cost');
  const costs = costName === undefined ? undefined : new CostField(costName);
  return {
    name: 'pattern',
    costSource: costs,
    read: (line) => {
      const found = expression.exec(line);
      if (found === null) return undefined;
      const textOf = (name: string | undefined): string | undefined => {
        if (name === undefined) return undefined;
        const value = isExpression ? found.groups?.[name] : found[names.indexOf(name) + 1];
        return value && unescaped(value);
      };
      const field = (name: string): string | undefined =>
        [name, `http_${name.replaceAll('-', '_')}`]
          .filter((each) => names.includes(each))
          .map(textOf)[0] || undefined;
      return namedEntry((part) => textOf(nameOf(part)), field, costs);
    },
  };
}
