/** `sluice-traffic/lab`: the parts that import no Node.js module and so also run in browsers. */
export { type Moment, momentsOf, type Piece } from './generate/profile.ts';
export { Random } from './generate/random.ts';
export { type GeneratedRequest, generateTraffic, type TrafficOptions } from './generate/traffic.ts';
export { type AdversaryReport, adversaryOf, type Burst } from './replay/adversary.ts';
export { AlgorithmRun, type RunDecision, type WorstWindow } from './replay/algorithm-run.ts';
export { WindowCounts } from './replay/window-counts.ts';
