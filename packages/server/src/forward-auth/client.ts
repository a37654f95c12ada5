/**
 * The client address of a forwarded request. The peer of the socket is always the proxy, so the
 * address comes from a header of a trusted proxy. If no proxy were trusted, all clients would share
 * one key. Without the setting `trustProxy`, a proxy on this machine is trusted, because local
 * programs can send any client address anyway. A proxy on another machine is not trusted, and a
 * warning is logged.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type AddressReader, clientAddress, UNKNOWN_CLIENT } from 'sluice/http';
import { AmbiguousRequest } from '../ambiguous-request.ts';
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
  const readLocal = withCache(clientAddress({ ...base, trustProxy: 1 }), forwardedHeader);
  const readRemote = clientAddress(base);
  return (incoming) =>
    isLocal(incoming.socket) ? readLocal(incoming) : addressBy(readRemote, incoming);
}

/**
 * Returns the client's key. Throws if the address is unknown, because all clients without an
 * address would share a limit.
 */
function addressBy(read: AddressReader, incoming: IncomingMessage): string {
  const key = read(incoming.socket.remoteAddress, (name) => singleHeader(incoming, name));
  if (key === UNKNOWN_CLIENT) throw new AmbiguousRequest('Expected a client address, got none');
  return key;
}

const LOCAL = Symbol('local');

/** Whether the peer is on this machine. Cached on the socket, to parse each address only once. */
function isLocal(socket: Socket & { [LOCAL]?: boolean }): boolean {
  // Dual-stack sockets report IPv4 addresses as `::ffff:127.0.0.1`.
  socket[LOCAL] ??= isLoopback((socket.remoteAddress ?? '').replace(/^::ffff:/, ''));
  return socket[LOCAL];
}

const MAX_CACHED = 4096;
const MAX_CACHED_LENGTH = 256;

/**
 * Caches the clients' keys by the value of the header. With one trusted proxy, a key depends only
 * on this value.
 */
function withCache(read: AddressReader, name: string): AddressOf {
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
