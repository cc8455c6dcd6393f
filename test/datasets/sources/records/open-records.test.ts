import { expect, it } from 'vitest';
import { openRecords } from '../../../../src/datasets/sources/records/open-records.js';
import { SOURCE_DEFAULTS } from '../../../../src/photos/feeds/items/source-options.js';

const ROW = '{"path":"a.jpg"}\n';

it.each([
  ['JSON lines', ROW, false, 'jsonl'],
  ['JSON lines behind a byte order mark', `\uFEFF${ROW}`, false, 'jsonl'],
  ['JSON lines behind an empty line', `\r\n${ROW}`, false, 'jsonl'],
  ['paths', 'a.jpg\n', false, 'paths'],
  ['paths behind a byte order mark', '\uFEFFa.jpg\n', false, 'paths'],
  ['paths that end with NUL, the first of which begins with a brace', '{1}.jpg\0a.jpg\0', true, 'paths'],
])('detects %s', async (_what, text, nulSeparated, format) => {
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield Buffer.from(text);
  }
  const opened = await openRecords(bytes(), 'stdin', 'auto', { ...SOURCE_DEFAULTS, nulSeparated });
  expect(opened.format).toBe(format);
  const paths: (string | null)[] = [];
  for await (const { item } of opened.records) paths.push(item.path);
  expect(paths.at(-1)).toBe('a.jpg');
});

it.each(['jsonl', 'paths'] as const)(
  'goes on after a URL that may not be fetched, if that is asked for: %s',
  async (format) => {
    const names = ['a.jpg', 'https://u:p@h/b.jpg?sig=1', 'c.jpg'];
    async function* bytes(): AsyncGenerator<Uint8Array> {
      yield Buffer.from(
        names.map((path) => (format === 'jsonl' ? JSON.stringify({ path }) : path)).join('\n'),
      );
    }
    const { records } = await openRecords(bytes(), 'stdin', format, { ...SOURCE_DEFAULTS, isUrlRow: true });
    const read: [string | null, string | undefined][] = [];
    for await (const { item } of records) read.push([item.path, item.error?.code]);
    expect(read).toEqual([
      ['a.jpg', undefined],
      ['https://h/b.jpg', 'IMAGE_DENIED'],
      ['c.jpg', undefined],
    ]);
  },
);
