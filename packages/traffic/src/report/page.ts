/** The page layout of all reports, with tiles and tables. */
import { createHash } from 'node:crypto';
import { counted, countText, dateTimeText, percentText, shortCount } from '../format.ts';
import { Html, html, type Part, tag } from './html.ts';
import { STYLE } from './style.ts';

/**
 * A threshold such as `--max-denied-clients 0.1%`, the number of denied clients or requests, and
 * whether the number is within the threshold.
 */
export interface Judgement {
  readonly flag: string;
  readonly most: string;
  readonly what: string;
  readonly denied: number;
  readonly of: number;
  readonly ok: boolean;
}

/** Optional parts of a report. */
export interface ReportExtras {
  readonly log?: {
    readonly paths: readonly string[];
    readonly format: string;
    readonly unreadable: number;
    readonly late: number;
    readonly requests?: number;
    readonly unreliable?: boolean;
    readonly early?: number;
    /**
     * The columns with costs. Undefined if no request has a cost and the user named no cost column.
     */
    readonly costs?: {
      readonly columns: readonly string[];
      readonly refused: number;
      readonly sample?: string;
    };
  };
  readonly missingHeaders?: readonly string[];
  readonly thresholds?: readonly Judgement[];
  /** The result of `suggest` in one sentence. */
  readonly advice?: string;
  /** The suggested policy as a configuration file. */
  readonly policy?: string;
}

interface Period {
  readonly firstMs: number | undefined;
  readonly lastMs: number | undefined;
}

export interface Page {
  /** Name of the command, such as `plan`. */
  readonly kind: string;
  readonly headline: string;
  readonly lead: Part;
  readonly body: Part;
}

const hash = createHash('sha256').update(STYLE).digest('base64');

/**
 * Content Security Policy that allows only the style sheet of the page: no scripts, no external
 * resources.
 */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${hash}'`,
  "base-uri 'none'",
  "form-action 'none'",
].join('; ');

const FOOTER = 'All times are in UTC. This file is self-contained and loads nothing.';

export function pageText({ kind, headline, lead, body }: Page): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${new Html(CONTENT_SECURITY_POLICY)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>sluice ${kind}: ${headline}</title>
<style>${new Html(STYLE)}</style>
</head>
<body>
<main>
<header>
<div class="kind">sluice ${kind}</div>
<h1>${headline}</h1>
${lead}
</header>
${body}
<footer>${FOOTER}</footer>
</main>
</body>
</html>
`.text;
}

export const note = (...parts: readonly Part[]): Html => tag('p', { class: 'note' }, parts);
export const soft = (text: string): Html => tag('span', { class: 'soft' }, text);

const MAX_PATHS = 3;

/** Returns the paragraphs below the headline: the period, the log and the problems of the log. */
export function leadOf({ firstMs, lastMs }: Period, extras: ReportExtras): Part {
  const isEmpty = firstMs === undefined || lastMs === undefined;
  const period = isEmpty ? 'no requests' : `${dateTimeText(firstMs)} to ${dateTimeText(lastMs)}`;
  return lead(period, extras);
}

/** Returns the paragraphs below the headline: `about`, the log and the problems of the log. */
export function lead(about: Part, { log, missingHeaders }: ReportExtras): Part {
  const missing = (missingHeaders ?? []).join(', ');
  return [
    log?.unreliable === true && unreliableNote(log),
    tag(
      'p',
      { class: 'soft' },
      about,
      log && [', from ', pathNames(log.paths), ` (${log.format})`],
    ),
    log?.costs !== undefined && costNote(log.costs),
    log !== undefined &&
      log.unreadable > 0 &&
      note(counted(log.unreadable, 'line'), ' unreadable.'),
    log !== undefined &&
      log.late > 0 &&
      note(counted(log.late, 'line'), ' out of order, replayed with a later time.'),
    log?.early !== undefined &&
      log.early > 0 &&
      note(counted(log.early, 'line'), ' more than a day ahead, replayed with an earlier time.'),
    missing !== '' &&
      note(
        `No request in the log has ${missing}, which the rules use: all requests counted by it `,
        'share one key.',
      ),
  ];
}

/**
 * Returns a warning that the numbers of the report are unreliable. It comes before all other notes.
 */
function unreliableNote({ late, early = 0, requests = 0 }: NonNullable<ReportExtras['log']>): Html {
  const share = percentText(late + early, requests);
  const lines = `${countText(late + early)} of ${countText(requests)} lines (${share})`;
  return tag(
    'p',
    { id: 'unreliable', class: 'alert' },
    tag('b', {}, 'Unreliable: '),
    `${lines} are out of order and replayed at a wrong time. Sort the log first.`,
  );
}

/** Returns a note with the cost columns and the number of lines with an invalid cost. */
function costNote({
  columns,
  refused,
  sample = '',
}: NonNullable<NonNullable<ReportExtras['log']>['costs']>): Html {
  const names = columns.map((name, at) => [at > 0 && ', ', tag('span', { class: 'name' }, name)]);
  const from = columns.length > 1 ? 'Costs from the columns ' : 'Costs from the column ';
  return note(
    columns.length === 0 ? 'No request has a cost, so each costs 1.' : [from, names, '.'],
    refused > 0 && [
      ` ${counted(refused, 'line')} unreadable: the cost is not a positive integer, such as `,
      tag('span', { class: 'name' }, sample),
      '.',
    ],
  );
}

function pathNames(paths: readonly string[]): Part {
  const shown = paths.slice(0, MAX_PATHS).map((path) => (path === '-' ? 'standard input' : path));
  const more = paths.length > MAX_PATHS ? ` and ${countText(paths.length - MAX_PATHS)} more` : '';
  const names = shown.map((path, at) => [at > 0 && ', ', tag('span', { class: 'name' }, path)]);
  return [names, more];
}

/** Returns a line for each threshold and its result. */
export const thresholdsOf = ({ thresholds = [] }: ReportExtras): Part =>
  thresholds.map(({ flag, most, what, denied, of, ok }) => {
    const found = `${countText(denied)} of ${countText(of)} ${what} (${percentText(denied, of)})`;
    const result = tag('span', { class: ok ? 'good' : 'bad' }, ok ? 'met' : 'exceeded');
    return tag('p', {}, `${flag} ${most}: `, result, `, ${found} denied.`);
  });

export interface Tile {
  readonly id: string;
  readonly value: string;
  readonly name: string;
}

/** Tiles abbreviate costs from this size on. */
const LARGE_COST = 10_000_000;

/** Returns a tile with a cost. A large cost is abbreviated, with the full number below it. */
export const costTile = (id: string, cost: number, name: string): Tile =>
  cost < LARGE_COST
    ? { id, value: countText(cost), name }
    : { id, value: shortCount(cost), name: `${name}, ${countText(cost)}` };

export const tiles = (all: readonly Tile[]): Html =>
  tag(
    'div',
    { class: 'tiles' },
    all.map(({ id, value, name }) =>
      tag('section', { id }, tag('b', {}, value), tag('span', {}, name)),
    ),
  );

export interface Column {
  readonly heading: string;
  readonly kind?: 'number' | 'name' | 'time' | 'bars';
}

/** Maximum number of rows of a table. */
export const MAX_ROWS = 60;

/**
 * Tables with more columns do not fit on a phone. A phone shows each of their rows as a block, with
 * the headings.
 */
const MAX_PHONE_COLUMNS = 6;

export function table(
  id: string,
  columns: readonly Column[],
  rows: readonly (readonly Part[])[],
  isWide = columns.length > MAX_PHONE_COLUMNS,
): Html {
  const headings = columns.map(({ heading, kind }) =>
    tag('th', { class: kind === 'number' && kind }, heading),
  );
  const lines = rows.slice(0, MAX_ROWS).map((row) => {
    const cells = row.map((cell, at) => {
      const { kind, heading } = columns[at];
      return tag('td', { class: kind, 'data-heading': isWide && heading }, cell);
    });
    return html`${tag('tr', {}, cells)}\n`;
  });
  const omitted = rows.length - lines.length;
  const head = tag('thead', {}, tag('tr', {}, headings));
  const whole = tag('table', { id, class: isWide && 'wide' }, head, tag('tbody', {}, lines));
  const more = omitted > 0 && note(`and ${countText(omitted)} more`);
  return html`${tag('div', { class: 'scroll' }, whole)}${more}`;
}

/** Names of clients, policies and routes are truncated to this length. */
const MAX_NAME_LENGTH = 80;

export const nameText = (name: string, most = MAX_NAME_LENGTH): string =>
  name.length > most ? `${name.slice(0, most - 1)}…` : name;

/** Returns a section with a heading. */
export const part = (title: string, remark: Part, ...body: readonly Part[]): Html =>
  html`${tag('section', {}, tag('h2', {}, title), remark !== undefined && note(remark), body)}\n`;
