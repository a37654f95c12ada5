/** Text that `sluice serve` prints on a terminal: the address and a command to try. */
import type { Config, Listen } from 'sluice-server';
import { listenText, storeKind } from 'sluice-server';
import { counted } from 'sluice-traffic/format';
import type { EffectiveConfig } from './effective.ts';

/** Returns a URL that works on this machine, also if the service listens on all interfaces. */
function localUrl(url: string, { host, port }: Listen): string {
  const { protocol } = new URL(url);
  if (host === '0.0.0.0') return `${protocol}//127.0.0.1:${port}`;
  return host === '::' ? `${protocol}//[::1]:${port}` : url;
}

/** Quotes a text for a POSIX shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export function tryLine(url: string, listen: Listen, config: Config): string {
  const at = localUrl(url, listen);
  // Add `-k`, because the certificate is probably for a host name, not for this address.
  const curl = url.startsWith('https:') ? 'curl -ik' : 'curl -i';
  const [policy] = config.policies;
  if (policy === undefined) return `${curl} ${quoted(`${at}/healthz`)}`;
  const body = JSON.stringify({ policy: policy.name, key: 'user:42' });
  return `${curl} ${quoted(`${at}/v1/check?enforce`)} -d ${quoted(body)}`;
}

export interface Addresses {
  readonly url: string;
  readonly http: Listen;
  readonly grpc: Listen | undefined;
}

export function welcomeLines(
  { url, http, grpc }: Addresses,
  found: EffectiveConfig,
): readonly string[] {
  const { config, settings, isExample } = found;
  const store = storeKind(settings.store).title;
  const what = counted(config.policies.length, 'policy');
  const where = isExample ? 'of the example; set your own with --config FILE' : 'loaded';
  return [
    `Sluice listens on ${url}${grpc === undefined ? '' : `, gRPC on ${listenText(grpc)}`}`,
    `Store: ${store}. ${what} ${where}.`,
    '',
    'Try this a few times:',
    `  ${tryLine(url, http, config)}`,
    `Dashboard: ${localUrl(url, http)}/dashboard/`,
    '',
    'Press Ctrl-C to stop.',
  ];
}
