/**
 * Runs in workers and the store process: exits when the supervisor has exited. If that happened
 * while this process loaded its modules, 'disconnect' was emitted before the listener was added.
 */
export function exitWithSupervisor(): void {
  process.on('disconnect', () => process.exit(1));
  if (!process.connected) process.exit(1);
}
