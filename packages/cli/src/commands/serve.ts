/** `sluice serve`: runs the service until SIGINT or SIGTERM. */
import { Option } from 'commander';
import {
  type Config,
  ConfigError,
  ConfigWarnings,
  fingerprint,
  fingerprintOf,
  listenText,
  loadConfigInThread,
  makeLog,
  openStore,
  type ReloadReport,
  runUntilSignal,
  serveWithWorkers,
  standardOutput,
  startService,
  storeListeners,
  type WorkersOptions,
  watchConfig,
} from 'sluice-server';
import type { Command, Context } from '../command.ts';
import { type EffectiveConfig, loadEffective, Problems } from '../effective.ts';
import { flagsOf, settingOptions } from '../flags.ts';
import { EXIT_DENIED, EXIT_OK, type ExitCode, type Output, visible } from '../output.ts';
import { problemLines } from '../problems.ts';
import { startFailure } from '../start-failure.ts';
import { terminalLine } from '../terminal-log.ts';
import { type Addresses, tryLine, welcomeLines } from '../welcome.ts';
import { printConfig } from './print-config.ts';

interface ServeOptions {
  readonly printConfig?: boolean;
  readonly json?: boolean;
}

/** A running service, with one process or several workers. */
interface RunningService extends Addresses {
  reload(): Promise<ReloadReport>;
  close(): Promise<void>;
}

async function run(context: Context, _args: readonly unknown[], given: object): Promise<ExitCode> {
  const { output, environment } = context;
  const options = given as ServeOptions & Readonly<Record<string, unknown>>;
  try {
    const found = await loadEffective(flagsOf(options), environment);
    if (options.printConfig) printConfig(output, found, options.json);
    else await serveUntilSignal(output, found);
    return EXIT_OK;
  } catch (error) {
    if (error instanceof Problems) printProblems(output, error);
    // A `ConfigError` is about a file that only the service reads, such as the overrides file.
    else if (error instanceof ConfigError) printProblems(output, new Problems(error.problems, []));
    else throw error;
    return EXIT_DENIED;
  }
}

function printProblems(output: Output, { ofFiles, ofSettings }: Problems): void {
  const lines = problemLines(ofFiles, output.isErrorTerminal, output.paintError, 'error: ');
  const settings = ofSettings.map((text) => `error: ${visible(text)}`);
  for (const line of [...lines, ...settings]) output.printError(line);
}

async function serveUntilSignal(output: Output, found: EffectiveConfig): Promise<void> {
  const { settings, config, paths, warnings } = found;
  const logTo = output.isTerminal ? standardOutput() : undefined;
  if (logTo !== undefined) logTo.format = terminalLine(output);
  const log = makeLog(settings);
  for (const warning of warnings) log.warn(warning);
  const configWarnings = new ConfigWarnings(log);
  configWarnings.report(config);
  const load = async (): Promise<Config> => {
    const next = await loadConfigInThread(paths);
    configWarnings.report(next);
    return next;
  };
  const base = { settings, log, config, load, ...(logTo !== undefined && { logTo }) };
  const { tlsCert, tlsKey } = settings;
  const others = tlsCert === undefined || tlsKey === undefined ? [] : [tlsCert, tlsKey];
  // Compute the fingerprint before the service reads the TLS files, so that a change during startup
  // is detected.
  const othersFingerprint = await fingerprint(others);
  const startAndWatch = async (): Promise<{ close(): Promise<void> }> => {
    const running = await start(base).catch((error) => {
      throw error instanceof ConfigError ? error : startFailure(error, settings);
    });
    const known = { fingerprint: fingerprintOf(config), others, othersFingerprint };
    const watch = await watchConfig({ configuration: running, log }, paths, known);
    if (output.isTerminal) for (const line of welcomeLines(running, found)) output.print(line);
    else log.info(fieldsOf(running, found), 'listening');
    const close = (): Promise<void> => {
      watch.stop();
      return running.close();
    };
    return { close };
  };
  await runUntilSignal(startAndWatch(), log);
}

const fieldsOf = (
  { url, http, grpc }: Addresses,
  { config, isExample }: EffectiveConfig,
): object => ({
  url,
  ...(grpc !== undefined && { grpc: listenText(grpc) }),
  policies: config.policies.length,
  ...(isExample && { example: true }),
  try: tryLine(url, http, config),
});

async function start(base: WorkersOptions): Promise<RunningService> {
  const { settings, log } = base;
  if (settings.workers > 1) return serveWithWorkers(base);
  const store = await openStore(settings, storeListeners(log));
  try {
    const service = await startService({ ...base, store });
    const { url, http, grpc, app } = service;
    const reload = (): Promise<ReloadReport> => app.configuration.reload();
    return { url, http, grpc, reload, close: () => service.close() };
  } catch (error) {
    await store.close();
    throw error;
  }
}

export const serve: Command = {
  options: () => [
    ...settingOptions(),
    new Option('--print-config', 'print the settings and their sources, then exit'),
    new Option('--json', 'print the settings as JSON'),
  ],
  epilogue: `
Each setting can also be an environment variable (SLUICE_LISTEN for --listen) or
a field of the configuration file (listen). Flags override variables, and
variables override the file. Without --config, an example configuration is used.
`,
  run,
};
