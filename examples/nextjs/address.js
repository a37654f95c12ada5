/**
 * Returns the client address. A `Request` does not contain it, so it comes from a header that the
 * platform or your proxy overwrites: x-real-ip on Vercel, and behind nginx with
 * `proxy_set_header X-Real-IP $remote_addr`. Do not use x-forwarded-for, to which clients can add
 * addresses. All requests without the header share one key.
 */
export const addressOf = (request) => request.headers.get('x-real-ip') ?? undefined;
