import { mkdtempSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { datasetInvalid, datasetUnreadable } from '../../../src/base/files/dataset-invalid.js';
import {
  checkFacts,
  factsOf,
  readExactly,
  type FeatureFile,
} from '../../../src/datasets/formats/feature-format.js';
import { scratchFolder } from '../../support/fixtures.js';

const column = { key: 'f', dtype: 'float16', dims: [2, 3], elements: 6 } as const;
const file: FeatureFile = { ...column, path: 'x.arrow', rows: 1, firstRow: 0, rowsPerBlock: 1 };

describe('the notes in a file', () => {
  it('must be those that the manifest implies', () => {
    const facts = new Map(Object.entries(factsOf(column)));
    expect(() => checkFacts(file, facts)).not.toThrow();
    const refused = (found: Iterable<readonly [string, string]>, message: RegExp): void =>
      expect(() => checkFacts(file, new Map([...facts, ...found]))).toThrow(message);
    refused([['tapir.dtype', 'float32']], /it holds float32 \[2,3\], the manifest says float16 \[2,3\]/);
    refused([['tapir.shape', '[6]']], /it holds float16 \[6\]/);
    expect(() => checkFacts(file, new Map())).toThrow(/onnx-tapir did not write it/);
  });
});

describe('readExactly', () => {
  it('reads a range, and refuses one beyond the end', async () => {
    const path = join(mkdtempSync(join(scratchFolder(), 'read-')), 'x');
    writeFileSync(path, 'abcdef');
    await using handle = await open(path);
    expect((await readExactly(handle, 2, 3, path)).toString()).toBe('cde');
    await expect(readExactly(handle, 4, 3, path)).rejects.toMatchObject({
      code: 'DATASET_INVALID',
      message: expect.stringMatching(/ends at byte 6/),
    });
  });
});

describe('errors while reading', () => {
  it('name the file and the reason; a typed error is kept', () => {
    const typed = datasetInvalid('x', 'it is odd');
    expect(datasetUnreadable('y', typed)).toBe(typed);
    const missing = Object.assign(new Error('ENOENT: …'), { code: 'ENOENT' });
    expect(datasetUnreadable('y', missing)).toMatchObject({
      code: 'DATASET_INVALID',
      cause: missing,
      details: { path: 'y', reason: 'the manifest names it, but it is missing' },
    });
    expect(datasetUnreadable('y', new RangeError('out of bounds')).message).toContain('out of bounds');
  });
});
