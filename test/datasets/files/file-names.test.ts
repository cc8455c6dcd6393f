import { describe, expect, it } from 'vitest';
import { featurePath, isShardFile, metadataPath } from '../../../src/datasets/files/file-names.js';
import { folderName } from '../../../src/datasets/records/folder-name.js';
import { FEATURE_FORMATS } from '../../../src/datasets/formats/feature-files.js';

describe('the files of a shard', () => {
  it('are recognised, finished or not, whatever the key and the number', () => {
    for (const shard of [0, 7, 99_999, 100_000, 12_345_678]) {
      expect(isShardFile(metadataPath(shard))).toBe(true);
      for (const key of ['f', 'a/b', '..', 'con', 'x.npy', 'été', '(a|b)+'])
        for (const format of FEATURE_FORMATS)
          expect(isShardFile(featurePath(folderName(key), shard, format)), key).toBe(true);
    }
    for (const folder of ['metadata', 'features/v'])
      expect(isShardFile(`${folder}/.tapir-7-0123abcd.partial`)).toBe(true);
    expect(metadataPath(3)).toBe('metadata/metadata-00003.parquet');
    expect(featurePath('v', 3, 'npy')).toBe('features/v/v-00003.npy');
  });

  it.each([
    'journal.jsonl',
    'manifest.json',
    'features/v/v-00000.faiss',
    'features/v/v-0000.npy',
    'features/v/v-000a0.npy',
    'features/v/w-00000.npy',
    'features/v/v-00000.npy.partial',
    'features/.tapir-7-0123abcd.partial',
    '.tapir-7-0123abcd.partial',
    'features/v/sub/v-00000.npy',
    'features/v-00000.npy',
    'parts/0-of-2/features/v/v-00000.npy',
    'metadata/metadata-00000.parquet.bak',
    'metadata/other-00000.parquet',
    'metadata/sub/metadata-00000.parquet',
    'metadata\\metadata-00000.parquet',
  ])('are not %s', (path) => expect(isShardFile(path)).toBe(false));
});
