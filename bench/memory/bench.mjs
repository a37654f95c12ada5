/** The memory benchmark: speed, bytes, growth and a flood of keys. */
import { ratio, takeTurns, timeRows, withContenders } from '../harness.mjs';
import { bar, round } from '../report.mjs';

const CONTENDERS = new URL('contenders.mjs', import.meta.url);

const OURS = 'sluice checkSync';
const AWAITED = 'sluice check, awaited';
const LOGS = ['sluice sliding-log, admitting', 'sluice sliding-log, denying'];
const FLEXIBLE = 'rate-limiter-flexible';
const EXPRESS = 'express-rate-limit';
const MAP = 'bare Map';

const ROUNDS = 7;

/** Speed with that many keys: at least these ratios. */
const SPEEDS = [
  { keys: 1000, operations: 400_000, needs: { [FLEXIBLE]: 5, [EXPRESS]: 2, [MAP]: 0.8 } },
  { keys: 1_000_000, operations: 400_000, needs: { [FLEXIBLE]: 4, [EXPRESS]: 4, [MAP]: 1.5 } },
];

/** Bytes of `keys` live keys, each with so many entries: at most this many a key. */
const SIZES = [
  { name: OURS, keys: 1_000_000, entries: 1, most: 48 },
  { name: 'sluice sliding-log, entries', keys: 1_000_000, entries: 1, most: 96 + 12 },
  { name: 'sluice sliding-log, entries', keys: 500_000, entries: 5, most: 96 + 5 * 12 },
  { name: 'sluice sliding-log, entries', keys: 100_000, entries: 100, most: 96 + 100 * 12 },
  { name: MAP, keys: 1_000_000, entries: 1 },
  { name: EXPRESS, keys: 1_000_000, entries: 1 },
  { name: FLEXIBLE, keys: 1_000_000, entries: 1 },
];

const GROWN_KEYS = 3_000_000;
const FLOOD = { maxKeys: 100_000, limit: 100, keys: 1_000_000 };

async function measureSpeed(result, progress) {
  for (const { keys, operations, needs } of SPEEDS) {
    progress(`speed at ${keys} keys, ${ROUNDS} rounds`);
    const names = [OURS, AWAITED, ...LOGS, MAP, EXPRESS, FLEXIBLE];
    await withContenders(CONTENDERS, names, { keys }, async (contenders) => {
      for (const contender of contenders) {
        await contender.call('fill');
        // Warm: compiled, and past the first collections.
        await contender.call('run', operations);
      }
      const times = await takeTurns(contenders, ROUNDS, operations);
      result.rows.push(...timeRows(times, { measure: `speed, ${keys} keys` }));
      const judge = (name, peer, need) => {
        const label = `${name} / ${peer}, ${keys} keys`;
        result.ratios[label] = ratio(times, name, peer);
        result.bars.push(bar(label, '>=', need, result.ratios[label]));
      };
      for (const [peer, need] of Object.entries(needs)) judge(OURS, peer, need);
      judge(AWAITED, FLEXIBLE, 2);
      for (const log of LOGS) judge(log, OURS, 0.5);
    });
  }
}

async function measureSize(result, progress) {
  for (const { name, keys, entries, most } of SIZES) {
    progress(`bytes of ${name}, ${keys} keys x ${entries}`);
    await withContenders(CONTENDERS, [name], { keys }, async ([contender]) => {
      const bytes = (await contender.call('bytes', keys, entries)) / keys;
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
