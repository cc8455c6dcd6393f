/** The metadata of a shard, written and read back, and damaged. */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { describe, expect, it } from 'vitest';
import { MetadataTable, readMetadata, type MetadataRow } from '../../../src/datasets/formats/metadata.js';
import { scratchFolder } from '../../support/fixtures.js';

const folder = mkdtempSync(join(scratchFolder(), 'metadata-'));
const nothing = {
  status: 'ok',
  errorCode: null,
  errorMessage: null,
  width: null,
  height: null,
  stamp: null,
  crop: null,
  tile: null,
  clipStart: null,
} as const;
const ROWS: readonly MetadataRow[] = [
  {
    ...nothing,
    path: 'ä/1.jpg',
    row: 7,
    width: 2 ** 16,
    height: 1,
    stamp: { sizeBytes: 2 ** 40, modifiedMs: 1_700_000_000_123, sha256: 'f'.repeat(64) },
  },
  { ...nothing, path: null, row: 8, stamp: { sizeBytes: 0, modifiedMs: null, sha256: null } },
  {
    ...nothing,
    path: '',
    status: 'error',
    row: null,
    errorCode: 'IMAGE_EMPTY',
    errorMessage: 'it has no bytes',
  },
  // A name may begin with a byte order mark.
  { ...nothing, path: '\uFEFFgone.jpg', status: 'removed', row: null, width: 3, height: 4 },
];

async function write(rows: readonly MetadataRow[], name = 'x.parquet'): Promise<string> {
  const table = new MetadataTable();
  for (const row of rows) table.add(row);
  expect(table.length).toBe(rows.length);
  writeFileSync(join(folder, name), await table.encode());
  return join(folder, name);
}

async function read(path: string, totalRows?: number): Promise<MetadataRow[]> {
  const rows: MetadataRow[] = [];
  for await (const row of readMetadata(path, totalRows)) rows.push(row);
  return rows;
}

describe('metadata', () => {
  it('reads back what was written', async () => {
    expect(await read(await write(ROWS))).toEqual(ROWS);
    expect(await read(await write([]))).toEqual([]);
  });

  it('keeps the order of many rows', async () => {
    const many = Array.from({ length: 40_000 }, (_, row) => ({ ...nothing, path: `${row}.jpg`, row }));
    const back = await read(await write(many));
    expect(back.map(({ row }) => row)).toEqual(many.map(({ row }) => row));
  });

  it('refuses a row that the dataset does not have, and an error with a row', async () => {
    const path = await write(ROWS);
    await expect(read(path, 9)).resolves.toHaveLength(4);
    await expect(read(path, 8)).rejects.toMatchObject({
      code: 'DATASET_INVALID',
      message: expect.stringMatching(/row 8 .*does not exist/),
    });
    const odd = await write([{ ...ROWS[0]!, status: 'error', errorCode: 'IMAGE_EMPTY' }]);
    await expect(read(odd)).rejects.toMatchObject({ code: 'DATASET_INVALID' });
  });

  it('refuses a time beyond all dates', async () => {
    const far = join(folder, 'far.parquet');
    const texts = ['path', 'status', 'error_code', 'error_message', 'sha256'];
    const numbers = ['row', 'width', 'height', 'size_bytes', 'modified'];
    const bytes = parquetWriteBuffer({
      columnData: [
        ...texts.map((name) => ({ name, data: ['error'] })),
        ...numbers.map((name) => ({ name, data: [name === 'modified' ? 2n ** 62n : null] })),
      ],
      schema: [
        { name: 'root', num_children: texts.length + numbers.length },
        ...texts.map(
          (name) =>
            ({ name, type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' }) as const,
        ),
        ...numbers.map((name) =>
          name === 'modified'
            ? ({
                name,
                type: 'INT64',
                converted_type: 'TIMESTAMP_MILLIS',
                repetition_type: 'OPTIONAL',
              } as const)
            : ({ name, type: 'INT64', repetition_type: 'OPTIONAL' } as const),
        ),
      ],
    });
    writeFileSync(far, new Uint8Array(bytes));
    await expect(read(far)).rejects.toMatchObject({
      code: 'DATASET_INVALID',
      message: expect.stringMatching(/"modified" holds values that are not times/),
    });
  });

  it('refuses another file, a missing one, and one that was cut', async () => {
    const whole = readFileSync(await write(ROWS));
    const path = join(folder, 'cut.parquet');
    for (const length of [0, 4, 100, whole.length - 1]) {
      writeFileSync(path, whole.subarray(0, length));
      await expect(read(path), `${length} bytes`).rejects.toMatchObject({ code: 'DATASET_INVALID' });
    }
    await expect(read(join(folder, 'none'))).rejects.toMatchObject({
      message: expect.stringMatching(/missing/),
    });
  });
});
