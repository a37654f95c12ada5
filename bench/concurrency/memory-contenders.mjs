/** Queues in memory with a limit on the jobs that run at the same time. */
import Bottleneck from 'bottleneck';
import PQueue from 'p-queue';
import { createLimiter } from 'sluice';

const AT_ONCE = 10;
const WAITING = 1000;

const LARGE_FLOW = 10_000;
const SMALL_FLOW = 10;
const SMALL_FLOWS = 9;

const job = async () => {};

/** Returns jobs that count themselves when they start, until the first flow has none that waits. */
function countingJobs() {
  const sizes = [LARGE_FLOW, ...Array.from({ length: SMALL_FLOWS }, () => SMALL_FLOW)];
  const served = sizes.map(() => 0);
  let isOver = false;
  const jobOf = (flow) => async () => {
    if (isOver) return;
    served[flow]++;
    isOver = served[flow] === sizes[flow];
  };
  return { sizes, served, jobOf };
}

/** `call` runs a job, with the name of its flow, when it has a slot. */
const queue = (call) => ({
  /** Runs rounds of jobs that are all added at once. Returns the nanoseconds per job. */
  async run(jobs) {
    const from = process.hrtime.bigint();
    for (let done = 0; done < jobs; done += WAITING) {
      await Promise.all(Array.from({ length: WAITING }, () => call(job)));
    }
    return Number(process.hrtime.bigint() - from) / jobs;
  },

  /** Returns how many jobs of each flow have run when the first flow has none that waits. */
  async shares() {
    const { sizes, served, jobOf } = countingJobs();
    await Promise.all(
      sizes.flatMap((size, flow) =>
        Array.from({ length: size }, () => call(jobOf(flow), `flow-${flow}`)),
      ),
    );
    return served;
  },
});

function sluice(optionsOf) {
  const limiter = createLimiter({ policies: { jobs: { concurrency: AT_ONCE } } });
  return queue((work, flow) => limiter.run('jobs', 'all', optionsOf(flow), work));
}

export const contenders = {
  'sluice run': () => sluice(() => undefined),

  'sluice run, flows': () => sluice((flow) => ({ flow })),

  bottleneck: () => {
    const limiter = new Bottleneck({ maxConcurrent: AT_ONCE });
    return queue((work) => limiter.schedule(work));
  },

  'p-queue': () => {
    const jobs = new PQueue({ concurrency: AT_ONCE });
    return queue((work) => jobs.add(work));
  },
};
