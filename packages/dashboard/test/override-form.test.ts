import { describe, expect, test } from 'vitest';
import { parseLocalTime } from '../src/clock.ts';
import { parseOverride } from '../src/view/override-form.ts';

function form(fields: Readonly<Record<string, string>>): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.set(name, value);
  return data;
}
const filled = { key: 'ada', limit: '25', expiry: 'never', reason: '' };
const read = (fields: Partial<typeof filled> & { at?: string }) =>
  parseOverride(form({ ...filled, ...fields }));

describe('the override form', () => {
  test('the override form is converted to the fields of the API', () => {
    expect(read({})).toEqual({ key: 'ada', fields: { limit: 25 } });
    expect(read({ expiry: '1h' }).fields).toEqual({ limit: 25, expiresInMs: 3_600_000 });
    expect(read({ expiry: '1d', reason: ' launch ' }).fields).toEqual({
      ...{ limit: 25, expiresInMs: 86_400_000, reason: 'launch' },
    });
  });

  test("the expiry time of the override form is in the browser's time zone", () => {
    const { fields } = read({ expiry: 'at', at: '2031-01-02T03:04' });
    expect(fields.expiresAt).toBe(parseLocalTime('2031-01-02 03:04'));
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
    [{ expiry: 'at', at: '' }, '/expiresAt'],
  ])('the override form rejects %j and names the invalid field', (fields, pointer) => {
    expect(() => read(fields)).toThrow(expect.objectContaining({ pointer }));
  });
});
