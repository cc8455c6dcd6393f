/** Suggestions for an unknown name. */

const NEAREST = 5;
/** Longer names, and requests, are like no other. */
const LONGEST = 200;

/**
 * Returns the names that are most like a request: those a few edits away, and those that contain its last part; without one of them, names
 * that are in the request or that it is in.
 */
export function nearestNames(request: string, names: Iterable<string>): string[] {
  const limit = Math.max(2, Math.ceil(request.length / 3));
  const lower = request.toLowerCase();
  const last = lower.split(/[./]/).at(-1) ?? '';
  const scored: { readonly name: string; readonly score: number }[] = [];
  const known = [...new Set(names)].filter((name) => name !== '' && name.length <= LONGEST);
  for (const name of known) {
    const other = name.toLowerCase();
    const distance = editDistance(lower, other, limit);
    if (distance <= limit) scored.push({ name, score: distance });
    else if (last.length > 1 && other.split(/[./]/).includes(last)) scored.push({ name, score: limit + 1 });
  }
  if (scored.length === 0 && request.length <= LONGEST)
    for (const name of known) {
      const other = name.toLowerCase();
      if (isPartOf(lower, other) || isPartOf(other, lower)) scored.push({ name, score: 0 });
    }
  return scored
    .sort((a, b) => a.score - b.score || a.name.length - b.name.length)
    .slice(0, NEAREST)
    .map(({ name }) => name);
}

/** The nearest names for a message, with commas, and how many more there are: `return (60 more)`; all of them where none is near. */
export function nearestOrAll(request: string, names: Iterable<string>): string {
  const known = [...names];
  const nearest = nearestNames(request, known);
  const more = known.length - nearest.length;
  if (nearest.length === 0) return known.join(', ');
  return `${nearest.join(', ')}${more > 0 ? ` (${more} more)` : ''}`;
}

/** Words the nearest names for a message: `; nearest is "pool"`. Empty without one. */
export function describeNearest(names: readonly string[]): string {
  if (names.length === 0) return '';
  return `; nearest ${names.length === 1 ? 'is' : 'are'} ${names.map((name) => `"${name}"`).join(', ')}`;
}

/** Shorter names are parts of too many others. */
const LEAST_PART = 4;

/** Whether a name is in another one, or all but a quarter of it, as `pool` is in `avgpol`. */
function isPartOf(part: string, whole: string): boolean {
  if (part.length < LEAST_PART) return false;
  // The edit distance to the nearest stretch of the whole (Sellers): it may begin and end anywhere.
  let row = Array.from({ length: whole.length + 1 }, () => 0);
  for (let i = 1; i <= part.length; i++) {
    const next = [i];
    for (let j = 1; j <= whole.length; j++) {
      const swap = row[j - 1]! + (part[i - 1] === whole[j - 1] ? 0 : 1);
      next.push(Math.min(swap, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return Math.min(...row) <= part.length / LEAST_PART;
}

/** Returns the edit distance (Levenshtein, with two rows), or `limit + 1` as soon as the distance must exceed the limit. */
export function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, row[j]! + 1, next[j - 1]! + 1));
    }
    if (Math.min(...next) > limit) return limit + 1;
    row = next;
  }
  return row[b.length]!;
}
