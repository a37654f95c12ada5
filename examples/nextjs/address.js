/**
 * Returns the client address. A `Request` does not contain it, so this function reads a header that
 * the platform or your proxy overwrites: x-real-ip on Vercel, or behind nginx with
 * `proxy_set_header X-Real-IP $remote_addr`. Do not use x-forwarded-for: clients can add addresses
 * to it. All requests without the header share one key.
 */
export const addressOf = (request) => request.headers.get('x-real-ip') ?? undefined;
