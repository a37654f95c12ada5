/** Wildcard patterns, in keys of overrides and in rules and descriptors. */

/** Whether a text matches a pattern, where `*` matches any characters. */
export const matchesWildcard = (pattern: string, text: string): boolean =>
  matchesWildcardParts(pattern.split('*'), text);

/**
 * Whether a text matches a pattern that was split at each `*`. Matches each part at its first
 * occurrence, without backtracking, so the time is linear.
 */
export function matchesWildcardParts(parts: readonly string[], text: string): boolean {
  const first = parts[0];
  const last = parts[parts.length - 1];
  if (parts.length === 1) return first === text;
  if (!text.startsWith(first) || text.length < first.length + last.length) return false;
  let at = first.length;
  for (let middle = 1; middle < parts.length - 1; middle++) {
    const found = text.indexOf(parts[middle], at);
    if (found < 0) return false;
    at = found + parts[middle].length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}
