/** Parses the Prometheus text format. */

export interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (-?\d[\d.eE+-]*|NaN)\b/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

const unescaped = (text: string): string =>
  text.replace(/\\(.)/g, (_, letter: string) => (letter === 'n' ? '\n' : letter));

/** Returns the samples by metric name. */
export function readMetrics(text: string): ReadonlyMap<string, readonly Sample[]> {
  const found = new Map<string, Sample[]>();
  for (const line of text.split('\n')) {
    const [, name, labels = '', value] = LINE.exec(line) ?? [];
    if (name === undefined) continue;
    const pairs = [...labels.matchAll(LABEL)].map(([, key, text]) => [key, unescaped(text)]);
    const sample = { labels: Object.fromEntries(pairs), value: Number(value) };
    const samples = found.get(name);
    if (samples === undefined) found.set(name, [sample]);
    else samples.push(sample);
  }
  return found;
}
