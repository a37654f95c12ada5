/**
 * Whose request it is that a proxy asks about. The other end of the socket is always the proxy, so
 * without any trust all clients would be one. Unless it is said whom to trust, a proxy on this
 * machine is believed about its client, because whoever runs something here can ask as anybody
 * anyway. One on another machine is not, and that is warned of.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type AddressReader, clientAddress } from 'sluice/http';
import type { Logger } from '../observe/log.ts';
import { isLoopback, type Settings } from '../settings.ts';
import type { AddressOf } from './forwarded-request.ts';
import { singleHeader } from './single-header.ts';

type AddressSettings = Pick<Settings, 'trustProxy' | 'forwardedHeader' | 'ipv6Prefix'>;

export function forwardedClient(settings: AddressSettings, log: Logger): AddressOf {
  const { trustProxy, forwardedHeader, ipv6Prefix } = settings;
  const onWarning = ({ code, message }: { code: string; message: string }): void =>
    log.warn({ code }, message);
  const base = { forwardedHeader, ipv6Prefix, onWarning };
  if (trustProxy !== undefined) {
    const read = clientAddress({ ...base, trustProxy });
    return (incoming) => addressBy(read, incoming);
  }
  const readNear = remembering(clientAddress({ ...base, trustProxy: 1 }), forwardedHeader);
  const readFar = clientAddress(base);
  return (incoming) =>
    isNear(incoming.socket) ? readNear(incoming) : addressBy(readFar, incoming);
}

const addressBy = (read: AddressReader, incoming: IncomingMessage): string =>
  read(incoming.socket.remoteAddress, (name) => singleHeader(incoming, name));

const NEAR = Symbol('near');

/**
 * Whether it is this machine. A connection is asked once, because asking the system takes a while.
 */
function isNear(socket: Socket & { [NEAR]?: boolean }): boolean {
  // A socket for both kinds of addresses writes the older one within the newer.
  socket[NEAR] ??= isLoopback((socket.remoteAddress ?? '').replace(/^::ffff:/, ''));
  return socket[NEAR];
}

const MAX_CACHED = 4096;
const MAX_CACHED_LENGTH = 256;

/** What one trusted hop says of its client depends on nothing but the header. */
function remembering(read: AddressReader, name: string): AddressOf {
  const keys = new Map<string, string>();
  return (incoming) => {
    const list = singleHeader(incoming, name);
    if (!list || list.length > MAX_CACHED_LENGTH) return addressBy(read, incoming);
    const known = keys.get(list);
    if (known !== undefined) return known;
    const key = addressBy(read, incoming);
    if (keys.size >= MAX_CACHED) keys.clear();
    keys.set(list, key);
    return key;
  };
}
