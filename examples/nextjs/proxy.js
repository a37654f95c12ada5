/**
 * The proxy of Next.js 16: one limit in front of all API routes. In older versions, the file is
 * named middleware.js and exports `middleware`.
 */
import { NextResponse } from 'next/server';
import { rateLimit } from 'sluice/fetch';
import { addressOf } from './address.js';

const limited = rateLimit({ name: 'api', limit: 20, window: '10s', address: addressOf });

// Next.js adds the RateLimit headers to the response of the route.
export const proxy = limited(() => NextResponse.next());

export const config = { matcher: '/api/:path*' };
