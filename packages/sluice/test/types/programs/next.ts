/**
 * A route handler and a proxy of Next.js. `NextRequest` stands in for the class of `next/server`,
 * which extends `Request` too. With that class of Next.js 16 the program compiles as well.
 */
import { decisionOf, type FetchOptions, rateLimit } from 'sluice/fetch';

declare class NextRequest extends Request {
  get cookies(): { get(name: string): { value: string } | undefined };
  get nextUrl(): URL;
}

const limited = rateLimit({ limit: 10, window: '1m', trustProxy: 1 });

export const GET = limited((request: NextRequest) => {
  return Response.json({ path: request.nextUrl.pathname, rate: decisionOf(request)?.remaining });
});

interface RouteContext {
  params: Promise<{ id: string }>;
}
export const POST = limited(async (_request: NextRequest, { params }: RouteContext) => {
  return Response.json(await params);
});

const options: FetchOptions<unknown[], NextRequest> = {
  limit: 10,
  window: '1h',
  key: (request) => request.cookies.get('user')?.value,
};
export const proxy = rateLimit(options)((request) => Response.redirect(request.nextUrl));

export const PUT = rateLimit({
  limit: 5,
  key: (request: NextRequest) => request.cookies.get('user')?.value,
})((request) => new Response(request.nextUrl.pathname));

// How Next.js calls them.
const handlers: ((request: NextRequest, context: RouteContext) => unknown)[] = [
  GET,
  POST,
  proxy,
  PUT,
];
export default handlers;
