/** Preloaded by a test (`--import`): SIGUSR2 starts an endless loop in a process of the service. */
process.on('SIGUSR2', () => {
  for (;;);
});
