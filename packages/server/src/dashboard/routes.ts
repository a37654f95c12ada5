/**
 * The dashboard as it is handed out: static files, open to everybody, since they say nothing. What
 * the page shows it asks of the API, where it is found out who may.
 */
import type { OutgoingHttpHeaders } from 'node:http';
import { HttpError, type RequestContext } from '../http/request-context.ts';
import type { Router } from '../http/router.ts';
import type { Logger } from '../observe/log.ts';
import { installedFiles, type PageFile, type PageFiles } from './files.ts';

const PAGE = '/dashboard/';
const INDEX = 'index.html';

/** Nothing runs, is shown or is asked that is not this service's own, and no page frames it. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  'trusted-types lit-html',
].join('; ');

const SECURITY: OutgoingHttpHeaders = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

/** The names of assets have a hash of what is in them, so what is there never changes. */
const FOREVER = 'public, max-age=31536000, immutable';
const ASK_AGAIN = 'no-cache';

/** What `/` says to whoever is not a browser. */
const LINKS = {
  service: 'sluice',
  dashboard: PAGE,
  openapi: '/v1/openapi.json',
  health: '/healthz',
  ready: '/readyz',
};

/** Whether gzip is taken: named, or by `*`, and not with a weight of 0. */
function takesGzip(accepted: string | undefined): boolean {
  if (accepted === undefined) return false;
  const weights = new Map(
    accepted.split(',').map((part) => {
      const [coding, ...parameters] = part.split(';').map((each) => each.trim().toLowerCase());
      const weight = parameters.find((each) => each.startsWith('q='))?.slice(2) ?? '1';
      return [coding, Number(weight) > 0] as const;
    }),
  );
  return weights.get('gzip') ?? weights.get('*') ?? false;
}

/** Whether the other end has this very thing already. A weak mark means the same here. */
const isKnown = (known: string | undefined, etag: string): boolean =>
  known?.split(',').some((each) => ['*', etag, `W/${etag}`].includes(each.trim())) === true;

function sendFile({ request, response }: RequestContext, file: PageFile, caching: string): void {
  const { headers, method } = request;
  const gzip = takesGzip(headers['accept-encoding'] as string | undefined) ? file.gzip : undefined;
  const { bytes, etag } = gzip ?? file.plain;
  const common = { ...SECURITY, etag, 'cache-control': caching, vary: 'accept-encoding' };
  if (isKnown(headers['if-none-match'], etag)) {
    response.writeHead(304, common).end();
    return;
  }
  response.writeHead(200, {
    ...common,
    'content-type': file.type,
    'content-length': bytes.length,
    ...(gzip !== undefined && { 'content-encoding': 'gzip' }),
  });
  response.end(method === 'HEAD' ? undefined : bytes);
}

function redirect({ response }: RequestContext): void {
  response.writeHead(302, { ...SECURITY, location: PAGE, 'content-length': 0, vary: 'accept' });
  response.end();
}

const missing = (message: string): HttpError =>
  new HttpError(404, 'ERR_NOT_FOUND', message, undefined, { ...SECURITY });

const NOT_BUILT =
  'The dashboard is not installed here. In a checkout `npm run build` makes it; everything else ' +
  'is served without it, see /v1/openapi.json';

/** `files` are read when the service starts. */
export function dashboardRoutes(
  router: Router,
  log: Pick<Logger, 'debug'>,
  files: PageFiles | Error = installedFiles(),
): void {
  if (files instanceof Error) log.debug({ err: files }, 'there is no dashboard');
  const send = (context: RequestContext, name: string, caching: string): void => {
    if (files instanceof Error) throw missing(NOT_BUILT);
    const file = files.get(name);
    if (file === undefined) throw missing('There is no such file of the dashboard');
    sendFile(context, file, caching);
  };
  router.add('GET', '/', 'page', (context) => {
    const isBrowser = context.header('accept')?.includes('text/html') === true;
    if (isBrowser) redirect(context);
    else context.send(200, LINKS, { vary: 'accept' });
  });
  router.add('GET', '/dashboard', 'page', redirect);
  router.add('GET', PAGE, 'page', (context) => send(context, INDEX, ASK_AGAIN));
  router.add('GET', `${PAGE}assets/*`, 'page', (context) =>
    send(context, context.path.slice(PAGE.length), FOREVER),
  );
}
