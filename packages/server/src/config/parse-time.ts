/** Parses times in configuration files. */

const DATE = String.raw`(\d{4})-(\d\d)-(\d\d)`;
const CLOCK = String.raw`(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?`;
const ZONE = String.raw`(?: *(?:Z|([+-])(\d\d):?(\d\d)))?`;
const TIME = new RegExp(`^${DATE}(?:[Tt ]+${CLOCK}${ZONE})?$`);
const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

/**
 * Returns the milliseconds since the epoch of `2030-01-31T12:00:00Z`, `2030-01-31 13:00:00 +01:00`
 * or `2030-01-31`; undefined if the time is invalid. A time without a zone is UTC, as in YAML.
 */
export function parseTime(text: string): number | undefined {
  const parts = TIME.exec(text);
  if (parts === null) return undefined;
  const [year, month, day, hour, minute, second] = parts
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  const fractionMs = Math.floor(Number(`0.${parts[7] ?? 0}`) * 1000);
  const zoneMinutes = Number(parts[9] ?? 0) * 60 + Number(parts[10] ?? 0);
  const isDay = month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month);
  const isTime = hour <= 23 && minute <= 59 && second <= 59 && zoneMinutes < 24 * 60;
  if (year < 1970 || !isDay || !isTime) return undefined;
  const localMs = Date.UTC(year, month - 1, day, hour, minute, second) + fractionMs;
  return Math.max(0, localMs - (parts[8] === '-' ? -1 : 1) * zoneMinutes * MINUTE_MS);
}

const daysIn = (year: number, month: number): number =>
  (Date.UTC(year, month, 1) - Date.UTC(year, month - 1, 1)) / DAY_MS;
