/** `sluice plan` in a process of its own, which tells in the end how much memory it had at most. */
import { writeFileSync } from 'node:fs';

const [memoryFile, ...words] = process.argv.slice(2);
process.argv = [process.argv[0], 'sluice', ...words];
process.once('exit', () => writeFileSync(memoryFile, String(process.resourceUsage().maxRSS)));
await import('../../packages/cli/dist/main.js');
