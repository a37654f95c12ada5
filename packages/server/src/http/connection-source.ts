/** Connections that the supervisor accepts and hands over to this process. */
import type { Socket } from 'node:net';
import type { Listen } from '../settings.ts';

export type ListenerName = 'http' | 'grpc';

export interface ConnectionSource {
  /** Passes all further connections to `take`. Returns the address of the supervisor's listener. */
  open(name: ListenerName, take: (socket: Socket) => void): Listen;
}
