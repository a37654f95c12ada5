/** Where connections come from, if another process takes them and shows them to this one. */
import type { Socket } from 'node:net';
import type { Listen } from '../settings.ts';

export type ListenerName = 'http' | 'grpc';

export interface ConnectionSource {
  /** Has connections shown to `take` from now on; answers where they are taken. */
  open(name: ListenerName, take: (socket: Socket) => void): Listen;
}
