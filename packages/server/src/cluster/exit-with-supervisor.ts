/**
 * Runs in workers and the store process: exits when the supervisor has exited. The supervisor may
 * have exited while this process loaded its modules. Then 'disconnect' was emitted before the
 * listener was added, so `connected` is checked too.
 */
export function exitWithSupervisor(): void {
  process.on('disconnect', () => process.exit(1));
  if (!process.connected) process.exit(1);
}
