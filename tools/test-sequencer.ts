/**
 * Starts the longest test files first, so that none of them runs alone at the end. Other files
 * follow, the largest first. The order has no effect on results.
 */
import { existsSync, statSync } from 'node:fs';
import { relative } from 'node:path';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take more than 12 s on two cores, the longest first. */
const LONGEST = [
  'packages/cli/test/serve.test.ts',
  'packages/dashboard/test/browser/policy.test.ts',
  'packages/server/test/cluster/chaos.test.ts',
  'packages/server/test/cluster/hung.test.ts',
  'packages/dashboard/test/browser/looks.test.ts',
  'packages/traffic/test/report/browser.test.ts',
  'packages/cli/test/packed.test.ts',
  'packages/cli/test/demo.test.ts',
  'packages/server/test/http-api/events.test.ts',
  'packages/server/test/reload-under-load.test.ts',
  'packages/cli/test/plan-page.test.ts',
  'packages/cli/test/page.test.ts',
  'packages/server/test/http-api/responses.test.ts',
  'packages/sluice/test/memory/long-logs.test.ts',
  'packages/sluice/test/http/proxies.test.ts',
  'packages/sluice/test/acquire-scale.test.ts',
  'packages/sluice/test/redis/topologies.test.ts',
  'packages/sluice/test/redis/long-logs.test.ts',
  'packages/server/test/observe/observer-memory.test.ts',
  'packages/dashboard/test/browser/keyboard.test.ts',
  'packages/server/test/cluster/supervision.test.ts',
  'packages/server/test/stop.test.ts',
  'packages/sluice/test/redis/differential.test.ts',
  'packages/server/test/cluster/grpc-drain.test.ts',
  'packages/server/test/cluster/limits.test.ts',
  'packages/server/test/failover/serve.test.ts',
  'packages/server/test/http/ids-memory.test.ts',
  'packages/sluice/test/redis/guarantees-cluster.test.ts',
  'packages/dashboard/test/browser/sign-in.test.ts',
  'packages/cli/test/reports.test.ts',
  'packages/server/test/http/clients-records.test.ts',
  'packages/sluice/test/memory/key-table.test.ts',
  'packages/sluice/test/memory/shrink.test.ts',
  'packages/dashboard/test/browser/safety.test.ts',
  'packages/dashboard/test/browser/overview.test.ts',
  'packages/sluice/test/redis/redis-store.test.ts',
  'packages/cli/test/stores.test.ts',
  'packages/server/test/cluster/protocols.test.ts',
  'packages/dashboard/test/browser/denials.test.ts',
  'packages/sluice/test/memory/idempotency.test.ts',
  'packages/sluice/test/redis/servers.test.ts',
  'packages/sluice/test/redis/size-and-lifetime.test.ts',
  'packages/server/test/hostile/campaign.test.ts',
  'packages/cli/test/top.test.ts',
  'packages/cli/test/generate.test.ts',
  'packages/dashboard/test/browser/killed-process.test.ts',
  'packages/sluice/test/redis/recovery.test.ts',
  'packages/server/test/reload.test.ts',
  'packages/sluice/test/tools.test.ts',
  'packages/server/test/config/hostile.test.ts',
  'packages/dashboard/test/browser/lab.test.ts',
  'packages/sluice/test/redis/contention.test.ts',
  'packages/server/test/cluster/sharing.test.ts',
];

const root = new URL('../', import.meta.url).pathname;
const missing = LONGEST.filter((path) => !existsSync(root + path));
if (missing.length > 0) {
  throw new Error(`Expected the files of tools/test-sequencer.ts to exist, got ${missing}`);
}

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const places = new Map(LONGEST.map((path, place) => [path, place]));
    const placeOf = ({ moduleId }: TestSpecification): number =>
      places.get(relative(root, moduleId)) ?? LONGEST.length;
    const sizes = new Map(files.map((file) => [file, statSync(file.moduleId).size]));
    return [...files].sort(
      (one, other) => placeOf(one) - placeOf(other) || sizes.get(other)! - sizes.get(one)!,
    );
  }
}
