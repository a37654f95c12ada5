/** Who is started, stopped and replaced, and what nobody may notice of it. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { policy } from '../running.ts';
import { Connection, ConnectionClosed } from './connection.ts';
import { Crewed, type CrewOptions, isAlive } from './crewed.ts';

const soon = { timeout: 20_000, interval: 20 };
const config = { policies: [policy('p', 1_000_000, '1h')] };

const running: Crewed[] = [];
afterEach(async () => {
  for (const crew of running.splice(0)) await crew.stop();
}, 60_000);

async function start(settings: CrewOptions['settings'] = {}): Promise<Crewed> {
  const crew = await Crewed.start({ config, settings });
  running.push(crew);
  return crew;
}

/** Asks one question after the other on a connection, and on the next when that is closed. */
class Asker {
  answered = 0;
  /** Requests that were sent on a connection that had been answered on, and then not answered. */
  dropped = 0;
  /** Connections that were taken and then closed before they were answered on. */
  turnedAway = 0;
  #isOver = false;

  constructor(private readonly port: number) {}

  async run(): Promise<void> {
    while (!this.#isOver) {
      let connection: Connection;
      try {
        connection = await Connection.open(this.port);
      } catch {
        return;
      }
      await this.#ask(connection);
      connection.close();
    }
  }

  async #ask(connection: Connection): Promise<void> {
    let answers = 0;
    while (!this.#isOver && !connection.isClosing && !connection.isClosed) {
      try {
        const { status } = await connection.check({ policy: 'p', key: 'load' });
        expect(status).toBe(200);
        answers++;
        this.answered++;
      } catch (error) {
        expect(error).toBeInstanceOf(ConnectionClosed);
        if (answers > 0) this.dropped++;
        else this.turnedAway++;
        return;
      }
    }
  }

  stop(): void {
    this.#isOver = true;
  }
}

describe('stopping', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    'on %s all that was asked is answered, and everybody goes',
    { timeout: 60_000 },
    async (signal) => {
      const crew = await start({ workers: Number(process.env.W ?? 4) });
      const pids = process.env.W === '1' ? [] : await crew.pids();
      const askers = Array.from({ length: 16 }, () => new Asker(crew.port));
      const asking = askers.map((each) => each.run());
      const sum = (field: 'answered' | 'dropped' | 'turnedAway'): number =>
        askers.reduce((total, each) => total + each[field], 0);
      await vi.waitUntil(() => sum('answered') > 500, soon);
      crew.kill(signal);
      expect(await crew.ended).toEqual({ code: 0, signal: null });
      await Promise.all(asking);
      console.log(sum('answered'), sum('dropped'), sum('turnedAway'));
      expect(sum('dropped')).toBe(0);
      expect(sum('turnedAway')).toBe(0);
      expect(pids.filter(isAlive)).toEqual([]);
    },
  );
});
