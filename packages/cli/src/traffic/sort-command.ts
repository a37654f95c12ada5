/** Builds a shell command that sorts a log by time, for logs too large to sort in memory. */

/** Quotes a text for a POSIX shell. */
export const quoted = (text: string): string =>
  /^[\w./:@%+=,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

interface TimeFormat {
  /** Regular expression that matches the time in a line. Valid in JavaScript and in awk. */
  readonly pattern: string;
  /** Options of `sort` that compare the time. */
  readonly keys: string;
}

const repeat = (text: string, count: number): string => text.repeat(count);
const DIGIT = '[0-9]';
const DATE = `${repeat(DIGIT, 4)}-${repeat(DIGIT, 2)}-${repeat(DIGIT, 2)}`;

const TIME_FORMATS: readonly TimeFormat[] = [
  {
    pattern: `${repeat(DIGIT, 2)}/[A-Z][a-z][a-z]/${repeat(DIGIT, 4)}:[0-9:.]+`,
    keys: '-k 1.8,1.11n -k 1.4,1.6M -k 1.1,1.2n -k 1.13,1',
  },
  { pattern: `${DATE}[T \t][0-9:.]+`, keys: '-k 1,1' },
  { pattern: `${repeat(DIGIT, 10)}[0-9.]*`, keys: '-k 1,1n' },
];

/**
 * Returns a command that sorts the lines by the first time in each line and writes them to
 * `sorted.log`. Lines without a time, such as a header, come first. Returns undefined if `line`, a
 * sample line of the log, has no time that `sort` can compare.
 */
export function sortCommand(paths: readonly string[], line: string): string | undefined {
  const format = TIME_FORMATS.find(({ pattern }) => new RegExp(pattern).test(line));
  if (format === undefined) return undefined;
  const files = paths.map(quoted).join(' ');
  const isGzip = paths.some((path) => path.endsWith('.gz'));
  const pattern = format.pattern.replaceAll('/', '\\/').replaceAll('\t', '\\t');
  const time = `match($0, /${pattern}/) ? substr($0, RSTART, RLENGTH) : ""`;
  const awk = `awk '{ t = ${time}; gsub(/[ \\t]/, "T", t); print t "\\t" $0 }'`;
  const source = isGzip ? `gzip -cdf ${files} | ${awk}` : `${awk} ${files}`;
  const sort = `LC_ALL=C sort -s -t "$(printf '\\t')" ${format.keys}`;
  return `${source} | ${sort} | cut -f 2- > sorted.log`;
}
