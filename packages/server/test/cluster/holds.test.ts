/** Holds and blocks apply to all workers. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { concurrencyPolicy, policy } from '../running.ts';
import { Connection } from './connection.ts';
import { RunningGroup } from './running-group.ts';

/** Enough for each worker to have at least one. */
const CONNECTIONS = 8;

let group: RunningGroup;
let open: Connection[];
beforeAll(async () => {
  const policies = [concurrencyPolicy('jobs', 5), policy('logins', 2, '1m', { block: '15m' })];
  group = await RunningGroup.start({ config: { policies }, settings: { workers: 2 } });
  open = await Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(group.port)));
}, 60_000);
afterAll(async () => {
  for (const each of open ?? []) each.close();
  await group?.stop();
}, 60_000);

/** Sends a body on each connection. */
const postAll = async (path: string, bodies: readonly object[]) =>
  (await Promise.all(bodies.map((body, at) => open[at % CONNECTIONS].post(path, [body])[0]))).map(
    ({ json }) => json,
  );

const repeated = (body: object): object[] => Array(CONNECTIONS).fill(body);

test('all workers share the holds of a key, and any worker can release them', async () => {
  const decisions = await postAll('/v1/check', repeated({ policy: 'jobs', key: 'a' }));
  const admitted = decisions.filter(({ allowed }) => allowed);
  expect(admitted).toHaveLength(5);
  expect(new Set(admitted.map(({ fence }) => fence)).size).toBe(5);
  // Reversed, so that most receipts are sent to another worker.
  const receipts = admitted.map(({ receipt }) => ({ receipt })).reverse();
  expect(await postAll('/v1/renew', receipts)).toEqual(Array(5).fill({ renewed: true }));
  expect(await postAll('/v1/release', receipts)).toEqual(Array(5).fill({ released: true }));
  expect(await postAll('/v1/release', receipts)).toEqual(Array(5).fill({ released: false }));
});

test('a block applies to all workers until one of them ends it', async () => {
  const body = { policy: 'logins', key: 'eve', duration: '1h' };
  const [{ blockedUntilMs }] = await postAll('/v1/blocks', [body]);
  expect(blockedUntilMs).toBeGreaterThan(0);
  const denied = await postAll('/v1/check', repeated({ policy: 'logins', key: 'eve' }));
  expect(denied.map((each) => [each.allowed, each.blockedUntilMs])).toEqual(
    Array(CONNECTIONS).fill([false, blockedUntilMs]),
  );
  await fetch(`${group.url}/v1/blocks?policy=logins&key=eve`, { method: 'DELETE' });
  const decisions = await postAll('/v1/check', repeated({ policy: 'logins', key: 'eve' }));
  expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(2);
});
