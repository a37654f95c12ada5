/** Error messages of a service that cannot start. */
import { flagOf, listenText, type Settings, variableOf } from 'sluice-server';
import { EXIT_DENIED, EXIT_ERROR, Failure, visible } from './output.ts';

/**
 * Finds the error code in the message, because the supervisor receives errors of workers without
 * `code`.
 */
const ADDRESS_CODE = /\b(EADDRINUSE|EACCES|EADDRNOTAVAIL|ENOTFOUND)\b/;

export function startFailure(error: Error, settings: Settings): Failure {
  const message = visible(error.message);
  const [, code] = ADDRESS_CODE.exec(error.message) ?? [];
  const isFile = (error as NodeJS.ErrnoException).syscall === 'open';
  if (code === undefined || isFile) return new Failure(message, EXIT_DENIED);
  const { grpc } = settings;
  const isGrpc = grpc !== undefined && error.message.endsWith(listenText(grpc));
  const name = isGrpc ? 'grpc' : 'listen';
  const listen = settings[name]!;
  const where = listenText(listen);
  if (code !== 'EADDRINUSE') {
    const setting = `${flagOf(name)} or ${variableOf(name)}`;
    const advice = `Set ${setting} to an address of this machine with a port above 1023.`;
    return new Failure(`Cannot listen on ${where} (${code}). ${advice}`, EXIT_ERROR);
  }
  const other = listenText({ ...listen, port: listen.port + 1 });
  return new Failure(
    `${where} is in use by another process. Stop that process, or choose another address, ` +
      `for example \`${flagOf(name)} ${other}\`.`,
    EXIT_ERROR,
  );
}
