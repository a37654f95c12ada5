/**
 * Main module of the process of a contender: creates the contender and executes the commands of the
 * harness.
 */
const [moduleAddress, name, options] = process.argv.slice(2);
const { contenders } = await import(moduleAddress);
// Exit when the harness exits, because open connections of the contender would keep this process
// alive.
process.once('disconnect', () => process.exit());
const contender = await contenders[name](JSON.parse(options));

process.on('message', async ({ method, parameters }) => {
  try {
    process.send({ value: await contender[method](...parameters) });
  } catch (error) {
    process.send({ error: error.stack });
  }
});
