/** Entry point: runs the command given by the process arguments. */
import { Output } from './output.ts';
import { runProgram } from './program.ts';

const output = new Output(process.stdout, process.stderr, process.env);
process.exitCode = await runProgram(process.argv.slice(2), output, process.env);
