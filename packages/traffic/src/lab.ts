/** `sluice-traffic/lab`: the parts that also run in a browser. Nothing here needs Node. */
export { type Moment, momentsOf, type Piece } from './generate/profile.ts';
export { Random } from './generate/random.ts';
export { type GeneratedRequest, generateTraffic, type TrafficOptions } from './generate/traffic.ts';
export { type AdversaryReport, adversaryOf, type Burst } from './replay/adversary.ts';
export { WindowCounts } from './replay/window-counts.ts';
