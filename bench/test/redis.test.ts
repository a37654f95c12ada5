import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { compare, loadRows } from '../redis/compare.mjs';
import { commandTime, keepInFlight, serverCpu, underLoad } from '../redis/load.mjs';

const always = () => true;

describe('keepInFlight', () => {
  it('keepInFlight keeps the given number of calls in flight until all are made', async () => {
    let [now, most, made] = [0, 0, 0];
    const call = async () => {
      most = Math.max(most, ++now);
      made++;
      await sleep(made % 3);
      now--;
    };
    await keepInFlight(8, 50, call, always);
    expect([most, made, now]).toEqual([8, 50, 0]);
  });

  it('keepInFlight counts admitted results; a rejection without an Error is a denial', async () => {
    let calls = 0;
    const call = async () => {
      calls++;
      if (calls % 4 === 0) throw { remainingPoints: 0 };
      return { allowed: calls % 4 === 1 };
    };
    const isAllowed = ({ allowed }: { allowed: boolean }) => allowed;
    expect(await keepInFlight(1, 40, call, isAllowed)).toBe(10);
  });

  it('keepInFlight rejects with the first error', async () => {
    const call = () => Promise.reject(new Error('connection lost'));
    await expect(keepInFlight(4, 40, call, always)).rejects.toThrow('connection lost');
  });
});

describe('measurements of Redis', () => {
  const info = [
    '# CPU',
    'used_cpu_sys:0.500000',
    'used_cpu_user:1.250000',
    'used_cpu_sys_children:9.000000',
    '# Commandstats',
    'cmdstat_incr:calls=30,usec=60,usec_per_call=2.00,rejected_calls=0,failed_calls=0',
    'cmdstat_eval:calls=1,usec=100,usec_per_call=100.00,rejected_calls=0,failed_calls=0',
    'cmdstat_evalsha:calls=30,usec=300,usec_per_call=10.00,rejected_calls=0,failed_calls=0',
  ].join('\r\n');

  it('commandTime returns the time of the given commands only', () => {
    expect(commandTime(info, ['eval', 'evalsha'])).toBe(400);
    expect(commandTime(info, ['incr'])).toBe(60);
    expect(commandTime(info, ['get'])).toBe(0);
  });

  it('serverCpu returns the CPU time without that of child processes', () => {
    expect(serverCpu(info)).toBe(1_750_000);
  });

  it('underLoad returns the costs per operation', async () => {
    const client = { config: async () => 'OK', info: async () => info };
    const options = { inFlight: 2, keys: 3, limit: 10, admits: 'all' };
    const keys: string[] = [];
    const call = async (key: string) => keys.push(key);
    const cost = await underLoad(client, call, always, options).run(4);
    expect(cost).toMatchObject({ server: 100_000, serverCpu: 0 });
    expect(keys.map((key) => key.slice(-1))).toEqual(['0', '1', '2', '0']);
  });

  it('underLoad measures each call if one is in flight at a time', async () => {
    const client = { config: async () => 'OK', info: async () => info };
    const options = { inFlight: 1, keys: 3, limit: 10, admits: 'all' };
    const { p50, p99 } = await underLoad(client, () => sleep(2), always, options).run(5);
    expect(p50).toBeGreaterThan(1e6);
    expect(p99).toBeGreaterThanOrEqual(p50);
  });

  it('underLoad gives each client its own calls', async () => {
    const client = { config: async () => 'OK', info: async () => info };
    const options = { inFlight: 4, keys: 3, limit: 10, admits: 'all', clients: 2 };
    const calls = [0, 0];
    const own = calls.map((_, place) => async () => void calls[place]++);
    await underLoad(client, own, always, options).run(8);
    expect(calls).toEqual([4, 4]);
  });

  it('underLoad rejects if calls were not decided as expected', async () => {
    const client = { config: async () => 'OK', info: async () => info };
    const options = { inFlight: 2, keys: 3, limit: 10, admits: 'none' };
    const load = underLoad(client, async () => {}, always, options);
    await expect(load.run(4)).rejects.toThrow('admitted 4 instead of 0');
  });
});

describe('the comparison', () => {
  const cost = (time: number, client: number) => ({ time, client, server: 2000, serverCpu: 3000 });
  const turns = new Map([
    ['a', [cost(1000, 4000), cost(2000, 4000), cost(3000, 4000)]],
    ['b', [cost(4000, 8000), cost(8000, 8000), cost(3000, 8000)]],
  ]);

  it('loadRows returns decisions per second and costs in microseconds', () => {
    expect(loadRows(turns, 'busy')[0]).toEqual({
      measure: 'busy',
      contender: 'a',
      'decisions/s': 500_000,
      'spread %': 100,
      'client CPU us': 4,
      'server us': 2,
      'server CPU us': 3,
    });
  });

  it('compare requires a minimum speed and a maximum cost', () => {
    const result = { ratios: {}, bars: [] };
    compare(result, turns, 'busy', ['speed', 'a', 'b', 3]);
    compare(result, turns, 'busy', ['client', 'a', 'b', 0.5]);
    compare(result, turns, 'busy', ['server', 'a', 'b']);
    expect(result).toEqual({
      ratios: { 'a / b, busy': 4, 'client CPU, a / b, busy': 0.5, 'server time, a / b, busy': 1 },
      bars: [
        { name: 'a / b, busy', need: '>= 3', got: 4, ok: true },
        { name: 'client CPU, a / b, busy', need: '<= 0.5', got: 0.5, ok: true },
      ],
    });
  });
});
