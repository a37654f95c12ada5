/**
 * Writes one day of a busy site as a combined log: visitors request a few pages some seconds apart,
 * and a few programs send requests all the time. The same seed gives the same log.
 */
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';

const DAY_S = 86_400;
const DAY = '10/Oct/2026';
const PROGRAMS = 20;
/** Share of the requests that programs send. */
const PROGRAMS_SHARE = 0.1;
const MAX_PAUSE_S = 60;
const CHUNK_CHARACTERS = 1 << 20;

const PATHS = [
  '/',
  '/search?q=lamp',
  '/items/',
  '/items/',
  '/cart',
  '/static/site.css',
  '/api/v1/items/',
];
const AGENTS = [
  'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/139.0 Safari/537',
  'Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148',
  'curl/8.14.1',
];

/** Returns a generator of numbers from 0 to 1. The same seed gives the same numbers. */
function randomFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const twoDigits = (number) => String(number).padStart(2, '0');

function stampOf(second) {
  const parts = [second / 3600, (second / 60) % 60, second % 60];
  return `${DAY}:${parts.map((part) => twoDigits(Math.floor(part))).join(':')} +0000`;
}

/**
 * Returns the address of a client. Its last 24 bits are scattered, so that consecutive clients have
 * no adjacent addresses.
 */
function addressOf(client) {
  const mixed = Math.imul(client, 0x9e3779b1) & 0xffffff;
  return `${11 + (client % 180)}.${mixed >>> 16}.${(mixed >>> 8) & 255}.${mixed & 255}`;
}

/** Returns one log line of a client. */
function lineOf(client, stamp, random) {
  const path = PATHS[Math.floor(random() * PATHS.length)];
  const id = path.length > 3 && path.endsWith('/') ? Math.floor(random() * 50_000) : '';
  const bytes = Math.floor(random() * 20_000);
  const agent = AGENTS[client % AGENTS.length];
  const request = `GET ${path}${id} HTTP/1.1`;
  return `${addressOf(client)} - - [${stamp}] "${request}" 200 ${bytes} "-" "${agent}"\n`;
}

/**
 * Clients whose visit continues, by the second of their next request, which is at most 60 s later.
 */
class Visits {
  #bySecond = Array.from({ length: MAX_PAUSE_S + 1 }, () => []);

  due(second) {
    const slot = second % this.#bySecond.length;
    const due = this.#bySecond[slot];
    this.#bySecond[slot] = [];
    return due;
  }

  add(second, client) {
    this.#bySecond[second % this.#bySecond.length].push(client);
  }
}

/**
 * Writes the given number of lines. If the visitors of a second have too few requests, programs
 * send the others.
 */
export async function writeLog(path, { lines, clients, seed }) {
  const random = randomFrom(seed);
  const output = createWriteStream(path);
  const visits = new Visits();
  // Probability of another request in a visit, chosen so that the visitors send their share of the
  // lines.
  const continues = 1 - clients / ((1 - PROGRAMS_SHARE) * lines);
  let written = 0;
  let started = 0;
  let text = '';
  for (let second = 0; second < DAY_S; second++) {
    const share = (second + 1) / DAY_S;
    const active = visits.due(second);
    for (; started < Math.floor(share * clients); started++) active.push(started);
    for (const client of active) {
      if (random() < continues) visits.add(second + 1 + Math.floor(random() * MAX_PAUSE_S), client);
    }
    const programs = Math.max(0, Math.round(share * lines) - written - active.length);
    for (let each = 0; each < programs; each++) active.push(clients + (each % PROGRAMS));
    const stamp = stampOf(second);
    for (const client of active.slice(0, lines - written)) text += lineOf(client, stamp, random);
    written = Math.min(lines, written + active.length);
    if (text.length < CHUNK_CHARACTERS) continue;
    if (!output.write(text)) await once(output, 'drain');
    text = '';
  }
  output.end(text);
  await once(output, 'finish');
}
