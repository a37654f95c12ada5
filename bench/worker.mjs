/** The process of one contender: builds it, then does what the harness says. */
const [moduleAddress, name, options] = process.argv.slice(2);
const { contenders } = await import(moduleAddress);
// A contender may hold connections, which would keep this process alive when the harness is gone.
process.once('disconnect', () => process.exit());
const contender = await contenders[name](JSON.parse(options));

process.on('message', async ({ method, parameters }) => {
  try {
    process.send({ value: await contender[method](...parameters) });
  } catch (error) {
    process.send({ error: error.stack });
  }
});
