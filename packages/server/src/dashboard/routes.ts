/**
 * Serves the static files of the dashboard to every client. The dashboard gets its data from the
 * API, which has access control.
 */
import type { OutgoingHttpHeaders } from 'node:http';
import { HttpError, type RequestContext } from '../http/request-context.ts';
import type { Router } from '../http/router.ts';
import type { Logger } from '../observe/log.ts';
import { type DashboardFile, type DashboardFiles, installedFiles } from './files.ts';

const PAGE = '/dashboard/';
const INDEX = 'index.html';

/**
 * The content security policy: allows only resources and requests of this service, and no frames.
 */
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

/**
 * `Cache-Control` of assets: their names contain a hash of the content, so a name never gets new
 * content.
 */
const FOREVER = 'public, max-age=31536000, immutable';
const REVALIDATE = 'no-cache';

/** The response of `/` for clients other than browsers. */
const LINKS = {
  service: 'sluice',
  dashboard: PAGE,
  openapi: '/v1/openapi.json',
  health: '/healthz',
  ready: '/readyz',
};

/** Whether `Accept-Encoding` includes gzip or `*` with a weight above 0. */
function acceptsGzip(accepted: string | undefined): boolean {
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

/** Whether `If-None-Match` contains the tag, strong or weak. */
const isKnown = (known: string | undefined, etag: string): boolean =>
  known?.split(',').some((each) => ['*', etag, `W/${etag}`].includes(each.trim())) === true;

function sendFile(
  { request, response }: RequestContext,
  file: DashboardFile,
  caching: string,
): void {
  const { headers, method } = request;
  const gzip = acceptsGzip(headers['accept-encoding'] as string | undefined)
    ? file.gzip
    : undefined;
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
  'The dashboard is not installed. In a checkout, run `npm run build`. All other endpoints work; ' +
  'see /v1/openapi.json';

/**
 * Adds the routes of the dashboard. The files are read when this function is called, not with each
 * request.
 */
export function dashboardRoutes(
  router: Router,
  log: Pick<Logger, 'debug'>,
  files: DashboardFiles | Error = installedFiles(),
): void {
  if (files instanceof Error) log.debug({ err: files }, 'dashboard not installed');
  const send = (context: RequestContext, name: string, caching: string): void => {
    if (files instanceof Error) throw missing(NOT_BUILT);
    const file = files.get(name);
    if (file === undefined) throw missing('The dashboard has no such file');
    sendFile(context, file, caching);
  };
  router.add('GET', '/', 'page', (context) => {
    const isBrowser = context.header('accept')?.includes('text/html') === true;
    if (isBrowser) redirect(context);
    else context.send(200, LINKS, { vary: 'accept' });
  });
  router.add('GET', '/dashboard', 'page', redirect);
  router.add('GET', PAGE, 'page', (context) => send(context, INDEX, REVALIDATE));
  router.add('GET', `${PAGE}assets/*`, 'page', (context) =>
    send(context, context.path.slice(PAGE.length), FOREVER),
  );
}
