/** The flags of `serve`, generated from the settings table. */
import { Option } from 'commander';
import { flagOf, SETTING_NAMES, SETTINGS, type SettingName } from 'sluice-server';

export type Flags = Partial<Record<SettingName, unknown>>;

const optionOf = (name: SettingName): Option =>
  new Option(`${flagOf(name)} <${SETTINGS[name].value}>`, SETTINGS[name].help);

export const settingOptions = (): readonly Option[] => SETTING_NAMES.map(optionOf);

/** Returns the values of the given flags by setting name. */
export function flagsOf(options: Readonly<Record<string, unknown>>): Flags {
  const given = SETTING_NAMES.map((name) => [name, options[optionOf(name).attributeName()]]);
  return Object.fromEntries(given.filter(([, value]) => value !== undefined));
}
