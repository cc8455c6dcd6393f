import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { splitLines, type Line } from '../../../../src/datasets/sources/items/lines.js';
import { ofSource } from '../../../../src/datasets/sources/items/source-errors.js';
import { inPieces } from '../../../support/sources.js';

async function lines(text: string | Uint8Array, more: object = {}, piece = 3): Promise<Line[]> {
  const found: Line[] = [];
  const read = splitLines(inPieces(Buffer.from(text), piece), { maxBytes: 100, ...more });
  for await (const line of ofSource('list.txt', read)) found.push(line);
  return found;
}

describe('splitLines', () => {
  it('ends lines with LF or CRLF, and the last one with the stream', async () => {
    expect(await lines('a\r\nbcde\n\nf\rg')).toEqual([
      { text: 'a', number: 1 },
      { text: 'bcde', number: 2 },
      { text: '', number: 3 },
      { text: 'f\rg', number: 4 },
    ]);
    expect(await lines('')).toEqual([]);
    expect(await lines('a\n')).toHaveLength(1);
  });

  it('ends them with NUL if asked to, and then with nothing else', async () => {
    expect((await lines('a\nb\r\0c', { nulSeparated: true })).map(({ text }) => text)).toEqual([
      'a\nb\r',
      'c',
    ]);
  });

  it('leaves out a byte order mark at the beginning only', async () => {
    expect((await lines('\uFEFFa\n\uFEFFb')).map(({ text }) => text)).toEqual(['a', '\uFEFFb']);
  });

  it('names the line that is too long, before it is complete', async () => {
    const endless = (async function* () {
      yield Buffer.from('ok\n');
      for (;;) {
        await Promise.resolve();
        yield Buffer.alloc(60, 'x');
      }
    })();
    const read = async (): Promise<void> => {
      for await (const { number } of ofSource('list.txt', splitLines(endless, { maxBytes: 100 })))
        expect(number).toBe(1);
    };
    await expect(read()).rejects.toMatchObject({ code: 'SOURCE_INVALID', details: { line: 2 } });
  });

  it('names the line that is not UTF-8', async () => {
    await expect(lines(Buffer.from([0x61, 0x0a, 0xff, 0x0a]))).rejects.toMatchObject({
      code: 'SOURCE_INVALID',
      details: { source: 'list.txt', line: 2, reason: 'line 2: it is not UTF-8' },
    });
  });

  it('gives the same lines however the bytes are cut', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(fc.string({ unit: 'grapheme' })),
        fc.integer({ min: 1, max: 9 }),
        async (texts, piece) => {
          const clean = texts.map((text) => text.replace(/[\r\n\uFEFF]/g, ''));
          const found = await lines(clean.map((text) => `${text}\n`).join(''), { maxBytes: 1000 }, piece);
          expect(found.map(({ text }) => text)).toEqual(clean);
        },
      ),
    ));
});
