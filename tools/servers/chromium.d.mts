import type { Browser } from 'playwright-core';

/** Resolves to the browser of this process. Close its contexts, not the browser. */
export function launchChromium(): Promise<Browser>;
