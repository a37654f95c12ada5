/** What takes the admin token: refunds, resets, keys, policies, overrides. */
import type { Router } from '../http/router.ts';
import type { Parts } from '../parts.ts';

export function adminRoutes(_router: Router, _parts: Parts): void {}
