import { describe, expect, test } from 'vitest';
import { readLocalTime } from '../src/clock.ts';
import { readOverride } from '../src/view/override-form.ts';

function form(fields: Readonly<Record<string, string>>): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.set(name, value);
  return data;
}
const filled = { key: 'ada', limit: '25', end: 'never', reason: '' };
const read = (fields: Partial<typeof filled> & { at?: string }) =>
  readOverride(form({ ...filled, ...fields }));

describe('the override form', () => {
  test('the override form is converted to the fields of the API', () => {
    expect(read({})).toEqual({ key: 'ada', fields: { limit: 25 } });
    expect(read({ end: '1h' }).fields).toEqual({ limit: 25, expiresInMs: 3_600_000 });
    expect(read({ end: '1d', reason: ' launch ' }).fields).toEqual({
      ...{ limit: 25, expiresInMs: 86_400_000, reason: 'launch' },
    });
  });

  test("the expiry time is in the browser's time zone", () => {
    const { fields } = read({ end: 'at', at: '2031-01-02T03:04' });
    expect(fields.expiresAt).toBe(readLocalTime('2031-01-02 03:04'));
  });

  test('the override form keeps spaces and special characters of a key', () => {
    expect(read({ key: ' a b ' }).key).toBe(' a b ');
    expect(read({ key: '<b>*' }).key).toBe('<b>*');
  });

  test.each([
    [{ key: '' }, '/key'],
    [{ limit: '' }, '/limit'],
    [{ limit: '1.5' }, '/limit'],
    [{ limit: '-1' }, '/limit'],
    [{ limit: '1e3' }, '/limit'],
    [{ end: 'at', at: '' }, '/expiresAt'],
  ])('the override form with %j names the invalid field', (fields, pointer) => {
    expect(() => read(fields)).toThrow(expect.objectContaining({ pointer }));
  });
});
