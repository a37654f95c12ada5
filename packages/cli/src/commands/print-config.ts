/** `sluice serve --print-config`: prints each effective setting and its source. */

import { fileKeyOf, SETTING_NAMES, shownSettings } from 'sluice-server';
import { counted } from 'sluice-traffic/format';
import type { EffectiveConfig } from '../effective.ts';
import { columns, type Output, visible } from '../output.ts';
import { contentCounts, contentText } from './validate.ts';

interface ShownSetting {
  readonly value: unknown;
  readonly from: string;
}

export function printConfig(
  output: Output,
  found: EffectiveConfig,
  json: boolean | undefined,
): void {
  const { config, isExample, warnings } = found;
  const settings = shownSettings(found) as Readonly<Record<string, ShownSetting>>;
  if (json) {
    output.printJson({ settings, config: { ...contentCounts(config), example: isExample } });
  } else {
    const rows = SETTING_NAMES.map((name) => {
      const { value, from } = settings[fileKeyOf(name)];
      const unit = name.endsWith('Ms') ? ' ms' : '';
      return [fileKeyOf(name), valueText(value) + unit, from];
    });
    for (const line of columns(rows)) output.print(line);
    const where = isExample ? 'the example' : counted(config.files.length, 'file');
    output.print('');
    output.print(`${contentText(config)} from ${where}:`);
    for (const file of config.files) output.print(`  ${visible(file)}`);
  }
  for (const warning of warnings) output.printError(`warning: ${visible(warning)}`);
}

function valueText(value: unknown): string {
  const isNone = value === null || (Array.isArray(value) && value.length === 0);
  return isNone ? '-' : visible(Array.isArray(value) ? value.join(', ') : String(value));
}
