/** Reads the logs that its arguments name, as a process of its own, and prints what came of it. */
import { LogReader } from '../../dist/index.js';

const result = {};
try {
  const reader = await LogReader.open(process.argv.slice(2));
  result.report = reader.report;
  for await (const _ of reader.entries());
} catch (error) {
  result.error = String(error);
}
console.log(JSON.stringify({ ...result, peakKilobytes: process.resourceUsage().maxRSS }));
