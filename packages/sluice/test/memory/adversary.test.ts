import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

const tool = new URL('../../../../tools/adversary.mjs', import.meta.url).pathname;

describe('adversary', () => {
  it('a flood of keys in other policies changes no decision of a policy within its share', () => {
    const args = [tool, '--ops', '200000', '--seed', '1', '--keys', '0'];
    const { status, stdout } = spawnSync(process.execPath, args, { encoding: 'utf8' });
    expect(stdout).toMatch(/^2\d{5} operations, \d{4,} honest decisions compared$/m);
    expect(stdout).not.toMatch(/[1-9]\d* differences/);
    expect(status).toBe(0);
  });
});
