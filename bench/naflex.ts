/**
 * NaFlex on photos of mixed shapes: sorted and cut to the longest of a batch, against padded to max_num_patches.
 *
 *   npx tsx bench/naflex.ts --open FILE --fixed FILE --return NAME [--photos 256] [--rounds 3]
 *
 * The processor enlarges small photos until they fill their patches, so only extreme ratios leave much to cut; there is no bar.
 * `--fixed` is an export of the same model whose number of patches is fixed, so that every photo is padded. The configuration lies beside both.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, embedImages, type FeatureExtractor } from 'onnx-tapir';
import sharp from 'sharp';
import { createRandom } from '../src/base/random.js';
import { interleave, ratios, Report } from './measure.js';
import { machineText } from './record.js';

console.log(machineText());
const { values } = parseArgs({
  options: {
    open: { type: 'string' },
    fixed: { type: 'string' },
    return: { type: 'string', default: 'pooler_output' },
    photos: { type: 'string', default: '256' },
    rounds: { type: 'string', default: '3' },
  },
});
if (values.open === undefined || values.fixed === undefined)
  throw new Error('--open and --fixed name two exports');

const folder = mkdtempSync(join(tmpdir(), 'tapir-naflex-'));
const random = createRandom(47);
/** Sides of 32 to 512 pixels. */
const side = (): number => Math.round(32 * 2 ** (4 * random()));
async function embed(extractor: FeatureExtractor<'v'>): Promise<void> {
  for await (const { error } of embedImages(extractor, folder, { batch: 8 })) if (error) throw error;
}
try {
  for (let i = 0; i < Number(values.photos); i++) {
    const [width, height] = [side(), side()];
    const background = { r: Math.floor(256 * random()), g: Math.floor(256 * random()), b: i % 256 };
    await sharp({ create: { width, height, channels: 3, background } })
      .jpeg()
      .toFile(join(folder, `${String(i).padStart(4, '0')}.jpg`));
  }
  await using open = await createFeatureExtractor(values.open, { [values.return]: 'v' });
  await using fixed = await createFeatureExtractor(values.fixed, { [values.return]: 'v' });
  const seconds = await interleave(Number(values.rounds), {
    fixed: () => embed(fixed as FeatureExtractor<'v'>),
    open: () => embed(open as FeatureExtractor<'v'>),
  });
  const report = new Report();
  const faster = ratios(seconds.fixed, seconds.open);
  report.add('images/s, cut to the longest, of those padded to the most', faster, null, true);
} finally {
  rmSync(folder, { recursive: true });
}
