/** `sluice-traffic`: logs in, replay through policies, answers out. */
export type { Entry, Format } from './entry.ts';
