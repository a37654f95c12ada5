/** Main module of a contender's process: creates the contender and runs the harness's commands. */
const [moduleAddress, name, options] = process.argv.slice(2);
const { contenders } = await import(moduleAddress);
// Open connections of a contender would keep this process alive after the harness exits.
process.once('disconnect', () => process.exit());
const contender = await contenders[name](JSON.parse(options));

process.on('message', async ({ method, parameters }) => {
  try {
    process.send({ value: await contender[method](...parameters) });
  } catch (error) {
    process.send({ error: error.stack });
  }
});
