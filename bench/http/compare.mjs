/** What the rounds come to: a row for each server, and ratios with how far the rounds differ. */
import { median, spread } from '../harness.mjs';
import { bar, round } from '../report.mjs';

const percent = (share) => Math.round(100 * share);

export function loadRows(turns, traffic) {
  return [...turns].map(([contender, rounds]) => {
    const of = (field) => rounds.map((each) => each[field]);
    return {
      measure: traffic,
      contender,
      'requests/s': Math.round(1e9 / median(of('time'))),
      'spread %': percent(spread(of('time'))),
      'server CPU us': round(median(of('server')) / 1e3),
      // If the load were as busy as the server, it would be the load that was measured.
      'server busy %': percent(median(rounds.map(({ server, time }) => server / time))),
      'load busy %': percent(median(rounds.map(({ load, time }) => load / time))),
    };
  });
}

/**
 * How many times as many requests a second `name` answers as `peer`, round by round, and what that
 * is by the processor time of the servers alone, which other work on the machine disturbs less.
 */
export function compare(result, turns, traffic, [name, peer, need]) {
  const others = turns.get(peer);
  const ratios = (field) => turns.get(name).map((own, turn) => others[turn][field] / own[field]);
  const label = `${name} / ${peer.split(', ').at(-1)}, ${traffic}`;
  const speeds = ratios('time');
  result.ratios[label] = round(median(speeds));
  result.ratios[`CPU, ${label}`] = round(median(ratios('server')));
  result.ratios[`spread %, ${label}`] = percent(spread(speeds));
  if (need) result.bars.push(bar(label, '>=', need, result.ratios[label]));
}
