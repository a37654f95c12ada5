/** Reads the logs given as arguments and prints the report or the error as JSON. */
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
