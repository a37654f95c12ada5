/** Returns the value of the metric that has at least these labels, or undefined. */
export function valueIn(text: string, name: string, labels: Record<string, string> = {}) {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  for (const line of text.split('\n')) {
    const [, found, inside = '', value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (found !== name) continue;
    if (wanted.every((each) => inside.split(',').includes(each))) return Number(value);
  }
  return undefined;
}
