/**
 * The server hook of SvelteKit: a limit in front of all pages, endpoints and form actions.
 *
 * The sixth request within 10 s gets a 429 with Retry-After.
 */

import { rateLimit } from 'sluice/fetch';
import { building } from '$app/environment';

const limited = rateLimit({
  limit: 5,
  window: '10s',
  // The adapter of the platform provides the address. For adapter-node behind a proxy, set
  // ADDRESS_HEADER and, if that is x-forwarded-for, XFF_DEPTH.
  address: (_request, event) => event.getClientAddress(),
  // Pages that are prerendered during the build have no client.
  skip: () => building,
});

const respond = limited((_request, event, resolve) => resolve(event));

export const handle = ({ event, resolve }) => respond(event.request, event, resolve);
