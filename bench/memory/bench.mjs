/**
 * Benchmark of the memory store: speed, bytes per key, the longest call while the store grows, and
 * memory when more keys arrive than `maxKeys`.
 */
import { ratio, takeTurns, timeRows, withContenders } from '../harness.mjs';
import { bar, round } from '../report.mjs';

const CONTENDERS = new URL('contenders.mjs', import.meta.url);

const OURS = 'sluice checkSync';
const GIVEN = 'sluice checkSync, time given';
const AWAITED = 'sluice check, awaited';
const LOG = 'sluice sliding-log';
const ADMITTING = 'sluice sliding-log, admitting';
const ENTRIES = 'sluice sliding-log, entries';
const FLEXIBLE = 'rate-limiter-flexible';
const EXPRESS = 'express-rate-limit';
const MAP = 'bare Map';

const ROUNDS = 15;
const OPERATIONS = 400_000;

/**
 * Speed comparisons: contender, peer and the required ratio, if any. With 1,000 keys, most calls
 * exceed the limit of 100 per minute. With 1,000,000 keys, no call exceeds it. The last traffic has
 * 1,000 keys and a limit that is never reached. Its ratios have no requirement.
 */
const SPEEDS = [
  {
    traffic: '1,000 keys',
    options: { keys: 1000 },
    needs: [
      [OURS, FLEXIBLE, 5],
      [OURS, EXPRESS, 2],
      [OURS, MAP, 0.8],
      [AWAITED, FLEXIBLE, 2],
      [LOG, OURS, 0.5],
      [ADMITTING, OURS, 0.5],
      [GIVEN, EXPRESS],
      [GIVEN, MAP],
    ],
  },
  {
    traffic: '1,000,000 keys',
    options: { keys: 1_000_000 },
    needs: [
      [OURS, FLEXIBLE, 4],
      [OURS, EXPRESS, 4],
      [OURS, MAP, 1.5],
      [AWAITED, FLEXIBLE, 2],
      [LOG, OURS, 0.5],
      [GIVEN, EXPRESS],
      [GIVEN, MAP],
    ],
  },
  {
    traffic: '1,000 keys, all within the limit',
    options: { keys: 1000, limit: 1_000_000_000 },
    needs: [
      [OURS, FLEXIBLE],
      [OURS, EXPRESS],
      [OURS, MAP],
      [AWAITED, FLEXIBLE],
      [GIVEN, MAP],
    ],
  },
];

/** Maximum bytes per live key with the given number of entries. */
const SIZES = [
  { name: OURS, keys: 1_000_000, entries: 1, most: 48 },
  { name: ENTRIES, keys: 1_000_000, entries: 1, most: 96 + 12 },
  { name: ENTRIES, keys: 500_000, entries: 5, most: 96 + 5 * 12 },
  { name: ENTRIES, keys: 100_000, entries: 100, most: 96 + 100 * 12 },
  { name: MAP, keys: 1_000_000, entries: 1 },
  { name: EXPRESS, keys: 1_000_000, entries: 1 },
  { name: FLEXIBLE, keys: 1_000_000, entries: 1 },
];

const GROWN_KEYS = 3_000_000;
const FLOOD = { maxKeys: 100_000, keys: 1_000_000 };

async function measureSpeed(result, progress) {
  for (const { traffic, options, needs } of SPEEDS) {
    progress(`speed, ${traffic}: ${ROUNDS} rounds`);
    const names = [...new Set(needs.flatMap((each) => each.slice(0, 2)))];
    await withContenders(CONTENDERS, names, options, async (contenders) => {
      for (const contender of contenders) {
        await contender.call('fill');
        // Warm up, so that V8 has compiled the code and made its first garbage collections.
        await contender.call('run', OPERATIONS);
      }
      const times = await takeTurns(contenders, ROUNDS, OPERATIONS);
      result.rows.push(...timeRows(times, { measure: `speed, ${traffic}` }));
      for (const [name, peer, need] of needs) {
        const label = `${name} / ${peer}, ${traffic}`;
        result.ratios[label] = ratio(times, name, peer);
        if (need) result.bars.push(bar(label, '>=', need, result.ratios[label]));
      }
    });
  }
}

async function measureSize(result, progress) {
  for (const { name, keys, entries, most } of SIZES) {
    progress(`bytes of ${name}: ${keys} keys x ${entries}`);
    await withContenders(CONTENDERS, [name], { keys }, async ([contender]) => {
      const bytes = (await contender.call('bytes', entries)) / keys;
      const measure = `bytes, ${keys} keys x ${entries}`;
      result.rows.push({ measure, contender: name, 'bytes/key': round(bytes) });
      if (most) result.bars.push(bar(`bytes a key, ${name}, x ${entries}`, '<=', most, bytes));
    });
  }
}

async function measureGrowth(result, progress) {
  progress(`growth to ${GROWN_KEYS} keys`);
  const measure = `longest call, 0 to ${GROWN_KEYS} keys`;
  await withContenders(CONTENDERS, [OURS, MAP], { keys: 1 }, async ([ours, map]) => {
    const ms = [];
    for (const contender of [ours, map]) {
      const longest = (await contender.call('longest', GROWN_KEYS)) / 1e6;
      ms.push(longest);
      result.rows.push({ measure, contender: contender.name, ms: round(longest) });
    }
    const label = `longest checkSync / longest Map.set, 0 to ${GROWN_KEYS} keys`;
    result.ratios[label] = round(ms[0] / ms[1]);
    result.bars.push(bar(label, '<=', 0.2, ms[0] / ms[1]));
  });
}

async function measureFlood(result, progress) {
  const { maxKeys, keys } = FLOOD;
  progress(`flood of ${keys} keys at a cap of ${maxKeys}`);
  const name = 'sluice flooded';
  await withContenders(CONTENDERS, [name], FLOOD, async ([contender]) => {
    await contender.call('warm');
    const full = await contender.call('bytes', maxKeys);
    const more = await contender.call('bytes', keys);
    const measure = `flood, cap ${maxKeys}`;
    const megabytes = (bytes) => round(bytes / 1e6);
    result.rows.push({ measure, contender: `${name}, at the cap`, MB: megabytes(full) });
    result.rows.push({ measure, contender: `${name}, ${keys} more`, MB: megabytes(full + more) });
    const freed = (await contender.call('isFreed')) ? 1 : 0;
    result.bars.push(bar('denied keys freed by the flood', '<=', 0, freed));
    result.bars.push(bar('keys held after the flood', '<=', maxKeys, await contender.call('size')));
    const label = 'resident memory after the flood / at the cap';
    const resident = await contender.call('resident');
    result.ratios[label] = round(resident / (resident - more));
    result.bars.push(bar(label, '<=', 1.1, result.ratios[label]));
  });
}

export async function memoryBench(progress) {
  const result = { rows: [], ratios: {}, bars: [] };
  await measureSpeed(result, progress);
  await measureSize(result, progress);
  await measureGrowth(result, progress);
  await measureFlood(result, progress);
  return result;
}
