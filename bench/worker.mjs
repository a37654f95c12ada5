/**
 * Main module of the process of a contender: creates the contender and executes the commands of the
 * harness.
 */
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
