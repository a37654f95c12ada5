/** Why a service does not start, and what to do about it. */
import { flagOf, listenText, type Settings, variableOf } from 'sluice-server';
import { CANNOT, Failure, NO, visible } from './output.ts';

/** Errors of workers come as their text alone, so that is where the code is looked for. */
const ADDRESS_CODE = /\b(EADDRINUSE|EACCES|EADDRNOTAVAIL|ENOTFOUND)\b/;

export function startFailure(error: Error, settings: Settings): Failure {
  const message = visible(error.message);
  const [, code] = ADDRESS_CODE.exec(error.message) ?? [];
  const isFile = (error as NodeJS.ErrnoException).syscall === 'open';
  if (code === undefined || isFile) return new Failure(message, NO);
  const { grpc } = settings;
  const isGrpc = grpc !== undefined && error.message.endsWith(listenText(grpc));
  const name = isGrpc ? 'grpc' : 'listen';
  const listen = settings[name]!;
  const where = listenText(listen);
  const flag = `${flagOf(name)} (${variableOf(name)})`;
  if (code !== 'EADDRINUSE') {
    const advice = `Take an address of this machine and a port above 1023: ${flag}.`;
    return new Failure(`Cannot listen on ${where} (${code}). ${advice}`, CANNOT);
  }
  const other = listenText({ ...listen, port: listen.port + 1 });
  return new Failure(
    `${where} is taken: another program listens there, or another Sluice. Stop that one, or ` +
      `listen elsewhere, such as on ${other}: ${flag}.`,
    CANNOT,
  );
}
