/** Summarizes the measured turns: a row for each server, and ratios between servers. */
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
      // If the load generator is as busy as the server, it may be the bottleneck.
      'server busy %': percent(median(rounds.map(({ server, time }) => server / time))),
      'load busy %': percent(median(rounds.map(({ load, time }) => load / time))),
    };
  });
}

/**
 * Adds two ratios of `name` to `peer`: of throughput (`time`) and of the server's CPU time per
 * request (`server`). Each is the median over the turns, and above 1 if `name` is faster. If `need`
 * is given, adds a bar (a required bound) for the ratio that `judged` names.
 */
export function compare(result, turns, traffic, [name, peer, need], judged = 'time') {
  const others = turns.get(peer);
  const ratios = (field) => turns.get(name).map((own, turn) => others[turn][field] / own[field]);
  const label = `${name} / ${peer.split(', ').at(-1)}, ${traffic}`;
  const labels = { time: label, server: `CPU, ${label}` };
  result.ratios[labels.time] = round(median(ratios('time')));
  result.ratios[labels.server] = round(median(ratios('server')));
  result.ratios[`spread %, ${label}`] = percent(spread(ratios('time')));
  if (need) result.bars.push(bar(labels[judged], '>=', need, result.ratios[labels[judged]]));
}
