/** The fastest engine and precision on the first photos: what is measured, what is refused, and that a dataset keeps the choice. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, pruneModel } from 'onnx-tapir';
import { chooseEngine } from 'onnx-tapir/precision';
import { describe, expect, it } from 'vitest';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { hasBfloat16, hasOpenVino } from '../../../support/openvino.js';
import { runTapir } from '../../../support/run.js';
import { SMALL_SIZE, smallNet } from '../../../support/small-net.js';

const folder = mkdtempSync(join(scratchFolder(), 'choose-'));
const file = join(folder, 'net.onnx');
writeFileSync(file, smallNet());
const transform = { resize: SMALL_SIZE, crop: SMALL_SIZE } as const;
writeFileSync(`${file}.transform.json`, JSON.stringify(transform));
const photos = projectPath('examples/photos');
const pruned = pruneModel(file, { avgpool: 'embedding' });

describe('chooseEngine', () => {
  it.skipIf(!hasBfloat16)('measures each way on the first photos, and takes the fastest', async () => {
    const choice = await chooseEngine(await pruned, photos, { transform });
    const ways = choice.candidates.map(({ engine, precision }) => `${engine} ${precision}`);
    expect(ways).toEqual(['onnxruntime float32', 'openvino float32', 'openvino bfloat16']);
    const rates = choice.candidates.map(({ imagesPerSecond }) => imagesPerSecond!);
    const best = choice.candidates[rates.indexOf(Math.max(...rates))]!;
    expect(choice).toMatchObject({ engine: best.engine, precision: best.precision });
    expect(choice.candidates.map(({ reason }) => reason)).toEqual(
      choice.candidates.map((one) => (one === best ? null : 'slower')),
    );
    expect(choice.candidates[0]!.cosine).toBe(1);
    expect(choice.candidates[2]!.cosine).toBeLessThan(1);
  });

  it.skipIf(!hasBfloat16)('takes nothing that is too far from float32', async () => {
    const { candidates, precision } = await chooseEngine(await pruned, photos, { transform, minCosine: 1 });
    expect(precision).toBe('float32');
    expect(candidates[2]).toMatchObject({ precision: 'bfloat16', reason: 'too far from float32' });
    const only = chooseEngine(await pruned, photos, { transform, minCosine: 1, precision: 'bfloat16' });
    await expect(only).rejects.toMatchObject({
      code: 'PRECISION_TOO_LOW',
      message: expect.stringMatching(/minCosine 1\): openvino bfloat16 \d/),
    });
  });

  it.skipIf(!hasBfloat16)('is recorded by embedFolder, whose comparison it spares', async () => {
    const out = join(folder, 'recorded');
    const choice = await chooseEngine(await pruned, photos, { transform, precision: 'bfloat16', out });
    expect(choice).toMatchObject({ engine: 'openvino', againstFloat32: { images: 16 } });
    const place = { engine: 'openvino', precision: 'bfloat16' } as const;
    await using extractor = await createFeatureExtractor(await pruned, undefined, place);
    const { manifest } = await embedFolder(extractor, photos, { out, transform, choice });
    expect(manifest.runs[0]!.choice).toEqual(choice.candidates);
    expect(manifest.run.againstFloat32).toEqual(choice.againstFloat32);
    // Without the manifest, as after a kill, the journal tells.
    rmSync(join(out, 'manifest.json'));
    const again = await chooseEngine(await pruned, photos, { transform, out });
    expect(again).toMatchObject({ engine: 'openvino', precision: 'bfloat16', candidates: [] });
  });

  it('has one way where one engine and precision is asked for', async () => {
    const only = await chooseEngine(await pruned, photos, { engine: 'onnxruntime', precision: 'float32' });
    expect(only).toMatchObject({ engine: 'onnxruntime', precision: 'float32', againstFloat32: null });
    const impossible = chooseEngine(await pruned, photos, { engine: 'openvino', precision: 'float16' });
    await expect(impossible).rejects.toMatchObject({ code: 'PRECISION_UNSUPPORTED' });
    const broken = chooseEngine(await pruned, [Buffer.from('no image')], { transform, precision: 'auto' });
    if (hasOpenVino) await expect(broken).rejects.toMatchObject({ code: 'SOURCE_INVALID' });
    else await broken;
  });
});

describe('--engine auto', () => {
  it.each([
    ['embed', photos, '--out', '-'],
    ['serve', '--port', '0'],
    ['bench', 'embed', photos],
  ])('is tapir check --save now: %s', async (...command) => {
    for (const flag of ['--engine', '--precision']) {
      const flags = ['--model', file, '--return', 'avgpool=embedding', flag, 'auto'];
      const { code, stderr } = await runTapir([...command, ...flags]);
      expect(stderr).toContain(`${flag} must be a name: "tapir check MODEL PHOTOS --save"`);
      expect(code).toBe(2);
    }
  });
});
