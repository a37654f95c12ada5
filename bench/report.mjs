/** Prints benchmark results as a table or as JSON. */
import os from 'node:os';

function machine() {
  const cpus = os.cpus();
  const memoryGb = Math.round(os.totalmem() / 2 ** 30);
  return `${cpus[0]?.model.trim()} x${cpus.length}, ${memoryGb} GB, Node ${process.version}`;
}

/**
 * Returns a bar, which is a required bound. With the relation `>=`, `got` must be at least `need`;
 * with `<=`, at most.
 */
export function bar(name, relation, need, got) {
  const ok = relation === '>=' ? got >= need : got <= need;
  return { name, need: `${relation} ${need}`, got: round(got), ok };
}

export const round = (value) => Number(value.toPrecision(4));

function table(rows) {
  const headings = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = [headings, ...rows.map((row) => headings.map((each) => String(row[each] ?? '')))];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column].length)));
  const isNumber = (text) => /^[\d.,]+$/.test(text);
  return lines
    .map((line) =>
      line
        .map((text, column) =>
          isNumber(text) ? text.padStart(widths[column]) : text.padEnd(widths[column]),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

/** Prints a result. Returns the exit code. */
export function report(bench, { rows, ratios, bars }, asJson, print = console.log) {
  const date = new Date().toISOString().slice(0, 10);
  if (asJson) {
    print(JSON.stringify({ bench, date, machine: machine(), rows, ratios, bars }, null, 2));
  } else {
    const listed = Object.entries(ratios).map(([name, ratio]) => ({ ratio: name, value: ratio }));
    const judged = bars.map(({ name, need, got, ok }) => ({ bar: name, need, got, ok }));
    const title = `${bench}, ${date}, ${machine()}`;
    print([title, table(rows), table(listed), table(judged)].join('\n\n'));
  }
  return bars.every(({ ok }) => ok) ? 0 : 1;
}
