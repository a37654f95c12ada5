/** `sluice-traffic`: logs in, replay through policies, answers out. */
export type { Entry, Format } from './entry.ts';
export { FORMAT_NAMES, type FormatName } from './formats/detect.ts';
export type { Part } from './formats/named.ts';
export { owned } from './formats/text.ts';
export { LogReader, type LogReport, type ReadOptions, type UnreadableLine } from './read-log.ts';
export { LogError, STANDARD_INPUT } from './source.ts';
