/** Every call that takes photos: which of `tiles` and `clips` it serves. The table is that of docs/decisions/063. */
import { describe, expect, it } from 'vitest';
import { EMBED_FOLDER_FIELDS } from '../../../src/datasets/embed/embed-folder-options.js';
import { EMBED_FIELDS } from '../../../src/datasets/embed/embed-options.js';
import { EMBED_ROWS_FIELDS } from '../../../src/datasets/streams/embed-rows.js';
import { EMBED_STREAM_FIELDS } from '../../../src/datasets/streams/row-pipe.js';
import { TRAIN_FOLDER_FIELDS } from '../../../src/learn/train/folder/train-folder-options.js';
import { ESTIMATE_BATCH_NORM_FIELDS } from '../../../src/learn/train/statistics/estimate-batch-norm.js';
import { photoFields, type PhotoOptions } from '../../../src/photos/feeds/photo-options.js';
import { CLASSIFY_FIELDS } from '../../../src/products/features/probe/classify-images.js';
import { EXPLORER_FIELDS } from '../../../src/products/pages/explore/write-explorer.js';
import { COMPARE_FIELDS } from '../../../src/products/precision/compare/compare-models.js';
import { CHOICE_FIELDS } from '../../../src/products/precision/judge/choose-engine.js';
import { QUANTIZE_FIELDS } from '../../../src/products/precision/quantize/quantize-model.js';
import { SERVICE_FIELDS } from '../../../src/products/serve/batches/service-options.js';
import type { Fields } from '../../../src/base/options.js';

const CALLS: readonly [string, Fields<PhotoOptions>, tiles: boolean, clips: boolean][] = [
  ['embedFolder', EMBED_FOLDER_FIELDS, true, true],
  ['embedImages', EMBED_FIELDS, true, true],
  ['embedStream', EMBED_STREAM_FIELDS, true, false],
  ['embed --out -', EMBED_ROWS_FIELDS, true, false],
  ['classifyImages', CLASSIFY_FIELDS, true, true],
  ['chooseEngine', CHOICE_FIELDS, false, true],
  ['writeExplorer', EXPLORER_FIELDS, true, false],
  ['compareModels', COMPARE_FIELDS, false, false],
  ['quantizeModel', QUANTIZE_FIELDS, false, false],
  ['estimateBatchNorm', ESTIMATE_BATCH_NORM_FIELDS, false, false],
  ['trainFolder', TRAIN_FOLDER_FIELDS, false, false],
  ['createService', SERVICE_FIELDS, false, false],
];

describe('options of photos', () => {
  it.each(CALLS)('of %s', (_call, { transform, tiles, clips }, takesTiles, takesClips) => {
    expect(transform.check('transform', { size: 448 })).toEqual({ size: 448 });
    const given = { tiles: { size: 64 }, clips: { frames: 4 } };
    for (const [option, field, isTaken] of [
      ['tiles', tiles, takesTiles],
      ['clips', clips, takesClips],
    ] as const) {
      expect(field.check(option, undefined)).toBeUndefined();
      const check = (): unknown => field.check(option, given[option]);
      if (isTaken) expect(check()).toMatchObject(given[option]);
      else
        expect(check).toThrow(
          expect.objectContaining({
            code: 'OPTION_INVALID',
            message: expect.stringMatching(new RegExp(`^option "${option}" must be left out here: .`)),
          }),
        );
    }
  });

  it('says why an option is refused', () => {
    const { tiles, clips } = photoFields({ tiles: 'it cannot' });
    expect(() => tiles.check('tiles', { size: 8 })).toThrow(
      'option "tiles" must be left out here: it cannot, got {"size":8}',
    );
    expect(clips.check('clips', { frames: 2 })).toMatchObject({ frames: 2 });
  });
});
