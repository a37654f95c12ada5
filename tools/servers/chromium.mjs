/** Chromium for tests: one browser for all files of a worker. */
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

/** The headless shell has no user interface and takes a sixth less CPU time. */
const INSTALLED = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];

/**
 * Browser features to disable. The popups of the address bar are pages whose start takes a second
 * per window. The other features are Playwright's defaults, repeated because Chromium uses only the
 * last `--disable-features`.
 */
const WITHOUT = [
  ...['WebUIOmniboxPopup', 'WebUIOmniboxAimPopup', 'WebUIOmniboxFullPopup', 'LensOverlay'],
  ...['AvoidUnnecessaryBeforeUnloadCheckSync', 'DestroyProfileOnBrowserClose', 'HttpsUpgrades'],
  ...['HttpsFirstBalancedModeAutoEnable', 'MediaRouter', 'PaintHolding', 'OptimizationHints'],
  ...['ThirdPartyStoragePartitioning', 'AvoidCorsURLLoaderRestartOnRedirect'],
  ...['NetworkTimeServiceQuerying', 'AimEnabled', 'PreconnectToSearch'],
];
const FLAGS = [
  ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
  ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
  `--disable-features=${WITHOUT.join(',')}`,
  // Resolve names other than localhost, so that tests can open a page in an insecure origin.
  '--host-resolver-rules=MAP *.test 127.0.0.1',
];

let launched;

/** Resolves to the browser of this process. Launching a browser takes a second of CPU time. */
export function launchChromium() {
  const executablePath = process.env.CHROMIUM ?? INSTALLED.find((path) => existsSync(path));
  launched ??= chromium.launch({ executablePath, args: FLAGS });
  return launched;
}
