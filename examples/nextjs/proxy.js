/**
 * The proxy of Next.js 16 (proxy.js; middleware.js with the export `middleware` in older versions):
 * one limit in front of all API routes.
 */
import { NextResponse } from 'next/server';
import { rateLimit } from 'sluice/fetch';
import { addressOf } from './address.js';

const limited = rateLimit({ name: 'api', limit: 20, window: '10s', address: addressOf });

// The rate-limit headers are added to the response of the route.
export const proxy = limited(() => NextResponse.next());

export const config = { matcher: '/api/:path*' };
