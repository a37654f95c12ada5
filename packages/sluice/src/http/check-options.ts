import { didYouMean } from '../did-you-mean.ts';
import { checkFields, isRecord, SluiceError } from '../errors.ts';

/** Throws for an unknown option. The message contains the known option with the closest name. */
export function checkOptionNames(given: unknown, known: readonly string[]): void {
  const unknown = isRecord(given) && Object.keys(given).find((name) => !known.includes(name));
  if (typeof unknown !== 'string') {
    checkFields(given, known);
    return;
  }
  const hint = didYouMean(unknown, known) || '.';
  const message = `Unknown option \`${unknown}\`${hint} Known options: ${known.join(', ')}`;
  throw new SluiceError('ERR_INVALID_OPTION', message);
}
