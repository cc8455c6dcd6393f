/** Text files that ask for more work than their size suggests: JSON, tables, index pages. Each is a few megabytes at size 1. */

/** JSON that is too deep, or too many values. */
function hostileValues(n: (count: number) => number): Readonly<Record<string, () => string>> {
  const list = (count: number, item: (i: number) => string): string =>
    `[${Array.from({ length: count }, (_, i) => item(i)).join()}]`;
  return {
    'empty lists': () => list(n(1_600_000), () => '[]'),
    'empty objects': () => list(n(1_600_000), () => '{}'),
    'lists within lists': () => '['.repeat(n(2_400_000)) + ']'.repeat(n(2_400_000)),
    'objects within objects': () => '{"a":'.repeat(n(800_000)) + '1' + '}'.repeat(n(800_000)),
    numbers: () => list(n(2_400_000), () => '1'),
    'long numbers': () => list(n(480), () => '9'.repeat(10_000)),
    texts: () => list(n(600_000), (i) => `"${i}"`),
    'a long text': () => JSON.stringify('a'.repeat(n(4_800_000))),
    'escapes in a text': () => `"${'\\u0061'.repeat(n(800_000))}"`,
    quotes: () => `"${'\\"'.repeat(n(2_400_000))}"`,
    'backslashes without an end': () => `"${'\\'.repeat(n(4_800_001))}`,
    'members by number': () => `{${list(n(300_000), (i) => `"${(i * 10_007) % 2 ** 31}":1`).slice(1, -1)}}`,
    'members of one name': () => `{${list(n(600_000), () => '"a":1').slice(1, -1)}}`,
    'no end': () => '[1,'.repeat(n(1_600_000)),
  };
}

/** The same as a member of an object, with members that a reader asks for before it. */
export function hostileJson(
  size: number,
  wrap: (value: string) => string = (value) => value,
): Readonly<Record<string, () => string>> {
  const values = hostileValues((count) => Math.ceil(count * size));
  return Object.fromEntries(Object.entries(values).map(([name, make]) => [name, () => wrap(make())]));
}

/** Tables with columns `path` and `label`. */
export function hostileTables(size: number): Readonly<Record<string, () => string>> {
  const n = (count: number): number => Math.ceil(count * size);
  return {
    'many rows': () => `path,label\n${Array.from({ length: n(400_000) }, (_, i) => `${i},b`).join('\n')}`,
    'rows of one path': () => `path,label\n${'a,b\n'.repeat(n(1_200_000))}`,
    'many columns': () => `path,label${',x'.repeat(n(2_400_000))}\na,b`,
    'rows of commas': () => `path,label\n${`${','.repeat(1000)}\n`.repeat(n(4800))}`,
    'one long line': () => `path,label\na,${'b'.repeat(n(4_800_000))}`,
    'a quotation without an end': () => `path,label\n"${'a,b\n'.repeat(n(1_200_000))}`,
    quotations: () => `path,label\n${'"a""b","c"\n'.repeat(n(430_000))}`,
    'empty lines': () => `path,label\n${'\n'.repeat(n(4_800_000))}a,b`,
    'line ends of three kinds': () => `path,label\n${'\r\r\n'.repeat(n(1_600_000))}a,b`,
    'only commas': () => ','.repeat(n(4_800_000)),
  };
}
