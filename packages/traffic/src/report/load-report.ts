/** What clients sent to a service, what it said, and whom it denied most, as pages tell it. */
import { cellBar } from './bars.ts';
import { count, percent } from './format.ts';
import type { Part } from './html.ts';
import { nameText, part, table } from './page.ts';

export interface LoadedClient {
  readonly client: string;
  readonly sent: number;
  readonly denied: number;
}

export interface LoadReport {
  readonly sent: number;
  readonly answered: number;
  /** How many answers there were of each status. */
  readonly statuses: Readonly<Record<string, number>>;
  /** How many got no answer, by the reason. */
  readonly failures: Readonly<Record<string, number>>;
  readonly clients: number;
  /** Whether there were more than are counted one by one. */
  readonly hasMoreClients: boolean;
  readonly tookMs: number;
  /** When the first denial came, since the start. */
  readonly firstDeniedMs: number | undefined;
  /** By how much the last request was sent late. */
  readonly lateMs: number;
  /** The most denied first. */
  readonly denied: readonly LoadedClient[];
}

/** What a refusal is to most; nginx can only pass on 403. */
export const isDenial = (status: number): boolean => status === 429 || status === 403;

export function deniedClientsPart(clients: readonly LoadedClient[]): Part {
  if (clients.length === 0) return undefined;
  const most = Math.max(1, ...clients.map(({ sent }) => sent));
  const rows = clients.map(({ client, sent, denied }) => [
    nameText(client),
    cellBar(sent, most, denied),
    `${count(denied)} of ${count(sent)}`,
    percent(denied, sent),
  ]);
  const columns = [
    { heading: 'client', kind: 'name' },
    { heading: '', kind: 'bars' },
    { heading: 'denied, of all', kind: 'number' },
    { heading: 'part', kind: 'number' },
  ] as const;
  return part('The most denied clients', undefined, table('denied-clients', columns, rows));
}
