/**
 * A route handler of Next.js: app/api/hello/route.js.
 *
 *     for i in 1 2 3 4 5 6; do curl -i http://127.0.0.1:3000/api/hello; done
 *
 * The sixth response is a 429 with Retry-After. GET and POST share the limit.
 */
import { rateLimit } from 'sluice/fetch';
import { addressOf } from '../../../address.js';

// In production, set `store: redisStore(client)`. Without it, each process has its own counters.
const limited = rateLimit({ name: 'hello', limit: 5, window: '10s', address: addressOf });

export const GET = limited(() => Response.json({ hello: 'world' }));

export const POST = limited(async (request) => Response.json({ got: await request.text() }));
