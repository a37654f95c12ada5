/**
 * Exits when the supervisor has exited. The channel may be closed already: a supervisor can exit
 * while this process loads its modules, and 'disconnect' is not emitted again.
 */
export function exitWithSupervisor(): void {
  process.on('disconnect', () => process.exit(1));
  if (!process.connected) process.exit(1);
}
