import { parquetMetadata } from 'hyparquet';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, it } from 'vitest';
import { checkPages } from '../../../../src/datasets/sources/lists/parquet-column.js';

const rows = 100;
const file = parquetWriteBuffer({
  columnData: [
    { name: 'path', data: Array.from({ length: rows }, (_, i) => `${i % 9}.jpg`), type: 'STRING' },
  ],
});
const chunk = parquetMetadata(file).row_groups[0]!.columns[0]!.meta_data!;
const start = Number(chunk.dictionary_page_offset || chunk.data_page_offset);
const pages = file.slice(start, start + Number(chunk.total_compressed_size));

describe('checkPages', () => {
  it('accepts the pages of a column', async () => {
    await checkPages(pages, rows);
    await checkPages(new ArrayBuffer(0), 0);
  });

  it('refuses more values than rows, and pages that were cut off', async () => {
    await expect(checkPages(pages, rows - 1)).rejects.toThrow('is damaged');
    let whole = 0;
    for (let length = 1; length < pages.byteLength; length++)
      await checkPages(pages.slice(0, length), rows).then(
        () => whole++,
        (error: unknown) => expect(error).toBeInstanceOf(Error),
      );
    // Between the dictionary and the values.
    expect(whole).toBeLessThanOrEqual(1);
  });

  it('ends on any header: no page has a negative size or one beyond the column', async () => {
    for (let at = 0; at < Math.min(64, pages.byteLength); at++) {
      for (const value of [0, 0x7f, 0x80, 0xff]) {
        const damaged = pages.slice(0);
        new Uint8Array(damaged)[at] = value;
        await checkPages(damaged, rows).catch((error: unknown) => expect(error).toBeInstanceOf(Error));
      }
    }
  });
});
