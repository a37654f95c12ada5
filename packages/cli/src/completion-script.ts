/** Completion scripts for shells, generated from the commands and their options. */
import type { Command, Option } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** Values of the first argument, by command. */
export type ArgumentValues = Readonly<Record<string, readonly string[]>>;

interface Flag {
  readonly names: readonly string[];
  readonly help: string;
  /** The allowed values. Undefined if the flag takes no value; empty if it takes any value. */
  readonly values: readonly string[] | undefined;
  readonly isFile: boolean;
}

interface Entry {
  readonly name: string;
  readonly help: string;
  readonly flags: readonly Flag[];
  readonly values: readonly string[];
  /** True if the arguments are files. */
  readonly takesFiles: boolean;
}

function flagOf({ short, long, description, flags, argChoices }: Option): Flag {
  const takesValue = /[<[]/.test(flags);
  return {
    names: [short, long].filter((name) => name !== undefined),
    help: description,
    values: takesValue ? (argChoices ?? []) : undefined,
    isFile: /[<[](?:file|files|path|folder)\b/.test(flags),
  };
}

const FILE_ARGUMENTS = new Set(['logs', 'files', 'file']);

const entryOf = (command: Command, values: ArgumentValues): Entry => ({
  name: command.name(),
  help: command.description(),
  flags: command.createHelp().visibleOptions(command).map(flagOf),
  values: values[command.name()] ?? [],
  takesFiles: command.registeredArguments.some((each) => FILE_ARGUMENTS.has(each.name())),
});

/** Quotes a single-line text for all three shells. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
const words = (all: readonly string[]): string => quoted(all.join(' '));

const namesOf = (flags: readonly Flag[]): readonly string[] => flags.flatMap(({ names }) => names);

/** Returns the bash code that completes the value of the flag before the cursor. */
function bashValues({ flags }: Entry): string {
  const cases = flags.flatMap(({ names, values, isFile }) => {
    if (values === undefined) return [];
    const action =
      values.length > 0 ? `_sluice_words ${words(values)}` : isFile ? '_sluice_files' : ':';
    return [`        ${names.join('|')}) ${action}; return ;;`];
  });
  return cases.length === 0 ? '' : `      case $previous in\n${cases.join('\n')}\n      esac\n`;
}

function bashCase(entry: Entry): string {
  const rest =
    entry.values.length > 0
      ? `_sluice_words ${words(entry.values)}`
      : entry.takesFiles
        ? '_sluice_files'
        : ':';
  return `    ${entry.name})
${bashValues(entry)}      case $current in
        -*) _sluice_words ${words(namesOf(entry.flags))} ;;
        *) ${rest} ;;
      esac ;;`;
}

function bash(top: Entry, entries: readonly Entry[]): string {
  const all = words([...entries.map(({ name }) => name), ...namesOf(top.flags)]);
  return `# Completion of sluice for bash. Add to ~/.bashrc: eval "$(sluice completion bash)"
_sluice_words() { COMPREPLY=($(compgen -W "$1" -- "$current")); }
_sluice_files() { compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")); }
_sluice() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} command='' word
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case $word in -*) ;; *) command=$word; break ;; esac
  done
  COMPREPLY=()
  case $command in
    '') _sluice_words ${all} ;;
${entries.map(bashCase).join('\n')}
  esac
}
complete -F _sluice sluice sluice-cli
`;
}

/** Escapes a text in an argument of zsh's `_arguments` and `_describe`. */
const zshText = (text: string): string => text.replace(/[[\]:\\]/g, '\\$&');

function zshFlag({ names, help, values, isFile }: Flag): readonly string[] {
  const action =
    values === undefined
      ? ''
      : values.length > 0
        ? `:value:(${values.join(' ')})`
        : `:value:${isFile ? '_files' : ' '}`;
  return names.map((name) => quoted(`*${name}[${zshText(help)}]${action}`));
}

function zshCase({ name, flags, values, takesFiles }: Entry): string {
  const rest =
    values.length > 0 ? `:value:(${values.join(' ')})` : takesFiles ? ':file:_files' : '';
  const specs = [...flags.flatMap(zshFlag), ...(rest === '' ? [] : [quoted(`*${rest}`)])];
  return `    ${name}) _arguments ${specs.join(' ')} ;;`;
}

function zsh(_: Entry, entries: readonly Entry[]): string {
  const all = entries.map(({ name, help }) => `    ${quoted(`${name}:${zshText(help)}`)}`);
  return `#compdef sluice sluice-cli
# Completion of sluice for zsh. Add to ~/.zshrc, after compinit: eval "$(sluice completion zsh)"
_sluice() {
  local -a commands=(
${all.join('\n')}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
${entries.map(zshCase).join('\n')}
  esac
}
compdef _sluice sluice sluice-cli
`;
}

const fishAfter = (command: string): string =>
  `complete -c sluice -n '__fish_seen_subcommand_from ${command}'`;

function fishFlag(command: string, { names, help, values, isFile }: Flag): string {
  const name = names.map((each) =>
    each.startsWith('--') ? `-l ${each.slice(2)}` : `-s ${each.slice(1)}`,
  );
  const value =
    values === undefined
      ? ''
      : values.length > 0
        ? ` -x -a ${words(values)}`
        : isFile
          ? ' -r -F'
          : ' -x';
  const parts = [name.join(' ') + value, '-d', quoted(help)];
  return `${fishAfter(command)} ${parts.join(' ')}`;
}

function fish(_: Entry, entries: readonly Entry[]): string {
  const lines = entries.flatMap(({ name, help, flags, values, takesFiles }) => [
    `complete -c sluice -n __fish_use_subcommand -a ${name} -d ${quoted(help)}`,
    ...flags.map((flag) => fishFlag(name, flag)),
    ...(values.length > 0 ? [`${fishAfter(name)} -a ${words(values)}`] : []),
    ...(takesFiles ? [`${fishAfter(name)} -F`] : []),
  ]);
  return `# Completion of sluice for fish:
# sluice completion fish > ~/.config/fish/completions/sluice.fish
complete -c sluice -f
${lines.join('\n')}
`;
}

const SCRIPTS: Readonly<Record<Shell, (top: Entry, entries: readonly Entry[]) => string>> = {
  ...{ bash, zsh, fish },
};

/** Returns the completion script of a shell. `program` must have the options of all commands. */
export function completionScript(shell: Shell, program: Command, values: ArgumentValues): string {
  const entries = program.commands.map((command) => entryOf(command, values));
  return SCRIPTS[shell](entryOf(program, {}), entries);
}
