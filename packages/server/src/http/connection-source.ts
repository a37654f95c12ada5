/** Accepted connections that another process hands over to this one. */
import type { Socket } from 'node:net';
import type { Listen } from '../settings.ts';

export type ListenerName = 'http' | 'grpc';

export interface ConnectionSource {
  /** Passes all further connections to `take`. Returns the address they are accepted on. */
  open(name: ListenerName, take: (socket: Socket) => void): Listen;
}
