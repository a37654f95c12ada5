/**
 * A job that spends a daily quota of 9,500 units, as for the YouTube API: a search costs 100 units,
 * a list of videos 1. The job fetches eight regions concurrently, which share the quota.
 *
 *     npm run build && node examples/ingestion/main.mjs
 *
 * When the quota is spent, the job prints its progress and exits with code 0. It stores the
 * progress in the file PROGRESS (default: a file in the temporary folder), from which the next run
 * continues.
 *
 * With REDIS_URL, any number of jobs on any number of machines share one quota. Give each job its
 * own REGIONS and its own PROGRESS file. Without REDIS_URL, the quota is in the memory of the
 * process, so each run starts with a full quota.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createLimiter, memoryStore } from 'sluice';
import { redisStore } from 'sluice/redis';

const PAGES = 15;
const regions = (process.env.REGIONS ?? 'BR DE FR GB IN JP MX US').split(' ');
const file = process.env.PROGRESS ?? `${tmpdir()}/ingestion-progress.json`;

/** A fake API without its own quota. */
const api = {
  async search(region, page) {
    await sleep(1);
    return [`${region}-${page}-a`, `${region}-${page}-b`];
  },
  async videos(ids) {
    await sleep(1);
    return ids.map((id) => ({ id, views: id.length }));
  },
};

async function connect(url) {
  const client = new Redis(url, {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    socketTimeout: 5000,
  });
  await new Promise((resolve, reject) => client.once('ready', resolve).once('error', reject));
  return client;
}

const client = process.env.REDIS_URL ? await connect(process.env.REDIS_URL) : undefined;
const limiter = createLimiter({
  policies: {
    quota: { limit: 9500, window: '1d', costs: { 'search.list': 100, 'videos.list': 1 } },
  },
  // If Redis is unavailable, the job fails: with a local fallback, it could exceed the quota.
  store: client ? redisStore(client, { onFailure: 'throw', deadlineMs: 2000 }) : memoryStore(),
});

/**
 * Returns the progress of each region: the next page, and the ids that the search for this page has
 * found. The ids are null if the search is not done yet.
 */
function load() {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
    return {};
  }
}

const progress = load();
for (const region of regions) progress[region] ??= { page: 0, found: null };
let spent = 0;
let retryAfterMs = 0;

/** Writes a new file and renames it, so that a killed job leaves no partial file. */
function save(region, state) {
  progress[region] = state;
  writeFileSync(`${file}.new`, JSON.stringify(progress, null, 2));
  renameSync(`${file}.new`, file);
}

/** Charges the quota. Returns false if it is spent; a denied call costs nothing. */
async function pay(operation) {
  const decision = await limiter.check('quota', 'youtube', { operation });
  if (decision.allowed) spent += decision.cost;
  else retryAfterMs = Math.max(retryAfterMs, decision.retryAfterMs);
  return decision.allowed;
}

/** Fetches a region page by page until it is complete or the quota is spent. */
async function fetchRegion(region) {
  while (progress[region].page < PAGES) {
    const { page, found } = progress[region];
    if (found === null) {
      if (!(await pay('search.list'))) return;
      // Save between the two calls, so that a charged search is not repeated.
      save(region, { page, found: await api.search(region, page) });
    } else {
      if (!(await pay('videos.list'))) return;
      await api.videos(found);
      save(region, { page: page + 1, found: null });
    }
  }
}

try {
  await Promise.all(regions.map(fetchRegion));
} finally {
  client?.disconnect();
}

const done = regions.map((region) => progress[region].page);
const pages = done.reduce((sum, page) => sum + page, 0);
const left = regions.length * PAGES - pages;
console.log(`Spent ${spent} units in this run.`);
for (const [place, region] of regions.entries()) {
  console.log(`${region}: ${done[place]} of ${PAGES} pages`);
}
if (left === 0) console.log(`All ${pages} pages are done.`);
else {
  const hours = Math.ceil(retryAfterMs / 3_600_000);
  console.log(
    `The quota is spent: ${pages} pages are done, ${left} left. Retry in ${hours} hours.`,
  );
}
