/**
 * The boundary, in the terminal: a full burst on each side of a window boundary, through
 * fixed-window and through sliding-log. `npm run demo`, or `npm run --silent demo -- --json`.
 */
import { createLimiter, ManualClock } from 'sluice';

const LIMIT = 50;
const WINDOW_MS = 10_000;
/** A boundary of the fixed windows, and the two bursts: one second before it and one after. */
const BOUNDARY_MS = 1_745_000_110_000;
const BURSTS = [-1000, 1000];
const COLUMNS = 61;
/** Time shown left and right of the boundary. */
const SHOWN_MS = 10_000;

const isTerminal = process.stdout.isTTY === true && process.env.NO_COLOR === undefined;
const paint = (code, text) => (isTerminal ? `\u001b[${code}m${text}\u001b[0m` : text);
const green = (text) => paint('32', text);
const red = (text) => paint('31', text);
const bold = (text) => paint('1', text);
const dim = (text) => paint('2', text);

/** Sends both bursts; what passed of each, and the most that any true window held. */
function play(algorithm) {
  const clock = new ManualClock(BOUNDARY_MS - SHOWN_MS);
  const policies = { demo: { algorithm, limit: LIMIT, window: WINDOW_MS } };
  const limiter = createLimiter({ policies, clock });
  const admitted = [];
  let denial;
  for (const afterMs of BURSTS) {
    clock.set(BOUNDARY_MS + afterMs);
    for (let call = 0; call < LIMIT; call++) {
      const decision = limiter.checkSync('demo', 'client');
      if (decision.allowed) admitted.push(clock.now());
      else denial ??= decision;
    }
  }
  const inWindow = (endMs) => admitted.filter((t) => t > endMs - WINDOW_MS && t <= endMs).length;
  const passed = BURSTS.map(
    (afterMs) => admitted.filter((t) => t === BOUNDARY_MS + afterMs).length,
  );
  return { algorithm, passed, worst: Math.max(...admitted.map(inWindow)), denial };
}

/** One line of time: the two bursts, as high as what passed, and the boundary between them. */
function timeline({ passed }) {
  const column = (afterMs) => Math.round(((afterMs + SHOWN_MS) / (2 * SHOWN_MS)) * (COLUMNS - 1));
  const cells = Array.from({ length: COLUMNS }, () => dim('·'));
  cells[column(0)] = dim('│');
  for (const [place, afterMs] of BURSTS.entries()) {
    cells[column(afterMs)] = passed[place] > 0 ? green('█') : red('x');
  }
  return cells.join('');
}

function show(result) {
  const { algorithm, passed, worst, denial } = result;
  const total = passed[0] + passed[1];
  const verdict =
    worst > LIMIT ? red(`${worst / LIMIT} x the limit`) : green('never over the limit');
  console.log(bold(algorithm));
  console.log(`  ${timeline(result)}`);
  console.log(`  passed: ${passed[0]} before the boundary, ${passed[1]} after: ${total} in 2 s`);
  console.log(`  most in any ${WINDOW_MS / 1000} s: ${worst}, ${verdict}`);
  if (denial) console.log(`  the rest was told: try again in ${denial.retryAfterMs} ms`);
  console.log();
}

const results = ['fixed-window', 'sliding-log'].map(play);
if (process.argv.includes('--json')) {
  const plain = results.map(({ algorithm, passed, worst, denial }) => ({
    algorithm,
    limit: LIMIT,
    passed,
    worst,
    retryAfterMs: denial?.retryAfterMs ?? 0,
  }));
  console.log(JSON.stringify(plain, null, 2));
} else {
  console.log(
    `A limit of ${LIMIT} in ${WINDOW_MS / 1000} s, and a burst of ${LIMIT} calls one second`,
  );
  console.log('before a window boundary and another one second after it.\n');
  results.forEach(show);
}
