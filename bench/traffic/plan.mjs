/** Runs `sluice` with the given arguments and writes its peak memory to a file at exit. */
import { writeFileSync } from 'node:fs';

const [memoryFile, ...args] = process.argv.slice(2);
process.argv = [process.argv[0], 'sluice', ...args];
process.once('exit', () => writeFileSync(memoryFile, String(process.resourceUsage().maxRSS)));
await import('../../packages/cli/dist/main.js');
