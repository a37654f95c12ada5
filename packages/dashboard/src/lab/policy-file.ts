/** Formats the policy of the lab as a configuration file. */
import { durationCode } from 'sluice/engine';
import { type LabSettings, policyOptions } from './settings.ts';

export function policyFile(settings: LabSettings): string {
  const { window, ...options } = policyOptions(settings, settings.policy);
  const fields = Object.entries({ ...options, window: durationCode(window) });
  const lines = fields.map(([name, value]) => `    ${name}: ${value}\n`);
  return `policies:\n  lab:\n${lines.join('')}`;
}
