/** Summarizes the rounds under load: a row for each contender, ratios and required bounds. */
import { median, ratio, spread } from '../harness.mjs';
import { bar, round } from '../report.mjs';

/** Returns one measured field of all rounds, by contender. */
const valuesOf = (turns, field) =>
  new Map([...turns].map(([name, values]) => [name, values.map((value) => value[field])]));

export function loadRows(turns, traffic) {
  return [...turns.keys()].map((name) => {
    const of = (field) => median(valuesOf(turns, field).get(name));
    return {
      measure: traffic,
      contender: name,
      'decisions/s': Math.round(1e9 / of('time')),
      'spread %': Math.round(100 * spread(valuesOf(turns, 'time').get(name))),
      'client CPU us': round(of('client') / 1e3),
      'server us': round(of('server') / 1e3),
      'server CPU us': round(of('serverCpu') / 1e3),
      ...(turns.get(name)[0].p50 && {
        'p50 us': round(of('p50') / 1e3),
        'p99 us': round(of('p99') / 1e3),
      }),
    };
  });
}

const TITLES = {
  speed: '',
  client: 'client CPU, ',
  server: 'server time, ',
  serverCpu: 'server CPU, ',
};

/** Adds the ratio of two contenders by one measure: speed, or a cost such as client CPU. */
export function compare(result, turns, traffic, [measure, name, peer, need]) {
  const label = `${TITLES[measure]}${name} / ${peer}, ${traffic}`;
  const isSpeed = measure === 'speed';
  const values = valuesOf(turns, isSpeed ? 'time' : measure);
  // `ratio` divides the value of the peer by that of the contender. For costs, swap the two.
  result.ratios[label] = isSpeed ? ratio(values, name, peer) : ratio(values, peer, name);
  if (need) result.bars.push(bar(label, isSpeed ? '>=' : '<=', need, result.ratios[label]));
}
