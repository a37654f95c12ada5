/** Stand-ins for `next/server` and `$app/environment`: the frameworks are large to install. */

/** The response of Next.js that continues with the route, as its proxy returns it. */
export const NextResponse = {
  next: (): Response => new Response(null, { headers: { 'x-middleware-next': '1' } }),
};

/** Whether SvelteKit prerenders pages. */
export const building = false;
