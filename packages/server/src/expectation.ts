/**
 * Describes what a zod schema accepts, for messages: "Expected `limit` to be an integer >= 1". For
 * integers, enums and plain types, the text is derived from the schema. For other schemas,
 * `expecting` sets the text.
 */
import { z } from 'zod';

export interface Expectation {
  readonly expected: string;
  /** Set if the schema parses scalars as they are written in the file: `007` stays `007`. */
  readonly asWritten?: true;
}

/** Texts by schema. A cloned schema inherits the text of the original, as with zod's `describe`. */
const expectations = z.registry<Expectation>();

/** Sets the text of a schema. Returns the schema. */
export const expecting = <S extends z.ZodType>(
  expected: string,
  schema: S,
  options: Pick<Expectation, 'asWritten'> = {},
): S => {
  expectations.add(schema, { expected, ...options });
  return schema;
};

/** Returns the description of what a schema accepts. */
export function expectationOf(schema: z.core.$ZodType): Expectation {
  return expectations.get(schema as z.ZodType) ?? { expected: derivedText(schema) };
}

function derivedText(schema: z.core.$ZodType): string {
  if (schema instanceof z.ZodNumber) return integerText(schema);
  if (schema instanceof z.ZodEnum) return choiceText(schema.options.map(String));
  if (schema instanceof z.ZodBoolean) return 'true or false';
  if (schema instanceof z.ZodArray) return 'a list';
  // A union is described by its first option, which is the usual form.
  if (schema instanceof z.ZodUnion) return expectationOf(schema.options[0]).expected;
  return schema instanceof z.ZodString ? 'text' : 'a map';
}

function integerText({ minValue, maxValue }: z.ZodNumber): string {
  const isOpen = maxValue === null || maxValue >= Number.MAX_SAFE_INTEGER;
  return isOpen ? `an integer >= ${minValue}` : `an integer from ${minValue} to ${maxValue}`;
}

const MAX_CHOICES_SHOWN = 20;
const MAX_SHOWN_LENGTH = 60;

/** Returns the text, cut off after `maxLength` characters, for messages. */
export const shorten = (text: string, maxLength = MAX_SHOWN_LENGTH): string =>
  text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;

/** Returns `one of a, b, c`, with at most 20 choices. */
export function choiceText(choices: readonly string[]): string {
  const shown = choices.slice(0, MAX_CHOICES_SHOWN).map((choice) => shorten(choice));
  return `one of ${shown.join(', ')}${choices.length > MAX_CHOICES_SHOWN ? ', …' : ''}`;
}

/** Adds a parser to a schema. The input is invalid if the parser returns undefined. */
export const withParser = <S extends z.ZodType, T>(
  schema: S,
  parse: (input: z.output<S>) => T | undefined,
) =>
  schema.transform((input, context): T => {
    const parsed = parse(input);
    if (parsed !== undefined) return parsed;
    context.addIssue({ code: 'custom', message: 'invalid' });
    return z.NEVER;
  });
