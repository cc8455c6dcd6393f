/** Models whose weights lie in another file. */
import { cpSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { createFeatureExtractor, pruneModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { fixturePath, scratchFolder } from '../support/fixtures.js';
import { readNpy } from '../support/npy.js';

const folder = join(scratchFolder(), 'external');
cpSync(fixturePath('graphs/generated/external'), folder, { recursive: true });
const model = join(folder, 'ok.onnx');

describe('external weights', () => {
  it('stay where they are, and are found by the session from any working directory', async () => {
    const pruned = await pruneModel(model, ['tensor:y']);
    expect(pruned.plan.kept.externalFiles).toEqual(['w.bin']);
    const extractor = await createFeatureExtractor(model, ['tensor:y']);
    const results = await extractor.run(readNpy(join(folder, 'data_ok/input_0.npy')));
    expect(results['tensor:y'].data).toEqual(readNpy(join(folder, 'data_ok/tap_000.npy')).data);
    await extractor.close();
  });

  it('refuse saving into another folder, and allow it beside them', async () => {
    const pruned = await pruneModel(model, { y: 'out' });
    const elsewhere = join(folder, 'elsewhere');
    mkdirSync(elsewhere);
    await expect(pruned.save(join(elsewhere, 'x.onnx'))).rejects.toMatchObject({
      code: 'EXTERNAL_DATA_ELSEWHERE',
      details: { folder, files: ['w.bin'] },
    });
    expect(existsSync(join(elsewhere, 'x.onnx'))).toBe(false);
    await pruned.save(join(folder, 'x.onnx'));
    const again = await createFeatureExtractor(join(folder, 'x.onnx'), ['out']);
    expect((await again.run(readNpy(join(folder, 'data_ok/input_0.npy')))).out.dims).toEqual([2]);
    await again.close();
  });

  it('cannot be found for a model that was opened from bytes', async () => {
    await expect(createFeatureExtractor(readFileSync(model), ['tensor:y'])).rejects.toMatchObject({
      code: 'EXTERNAL_DATA_UNSAFE',
      message: /open it by path/,
    });
  });
});
