/**
 * `npx tsx bench/clips.ts [--rounds N] [--clips 64]`: clips of 16 frames through r3d_18, from files to vectors, against the model alone on
 * clips that are in memory. The bar is 0.90.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, embedImages, loadClip, transformFromConfig } from 'onnx-tapir';
import { createModel } from 'onnx-tapir/zoo';
import sharp from 'sharp';
import { interleave, ratios, Report } from './measure.js';
import { machineText } from './record.js';

console.log(machineText());
const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, clips: { type: 'string', default: '64' } },
});
const [rounds, clips] = [Number(values.rounds), Number(values.clips)];
const FRAMES = 16;
const BATCH = 4;
/** Frames of 340 × 256, as Kinetics is often stored. */
const SIZE = { width: 340, height: 256 } as const;
const transform = transformFromConfig('torchvision:R3D_18_Weights.DEFAULT');

const work = mkdtempSync(join(tmpdir(), 'tapir-bench-clips-'));
process.on('exit', () => rmSync(work, { recursive: true, force: true }));
const frames: string[] = [];
for (let frame = 0; frame < clips * FRAMES; frame++) {
  const folder = join(work, String(Math.floor(frame / FRAMES)).padStart(4, '0'));
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${String(frame % FRAMES).padStart(6, '0')}.jpg`);
  const noise = { type: 'gaussian', mean: 128, sigma: 20 } as const;
  // oxlint-disable-next-line no-await-in-loop -- one frame after the other
  await sharp({ create: { ...SIZE, channels: 3, background: { r: frame % 256, g: 90, b: 40 }, noise } })
    .blur(3)
    .jpeg({ quality: 90 })
    .toFile(path);
  frames.push(path);
}

await using extractor = await createFeatureExtractor(await createModel('r3d_18'), { avgpool: 'v' });
const loaded = await Promise.all(
  Array.from({ length: BATCH }, (_, clip) =>
    loadClip(frames.slice(clip * FRAMES, (clip + 1) * FRAMES), transform),
  ),
);
const data = loaded.map((clip) => clip.toTensor());
const [first] = data as [(typeof data)[number]];
const batch = {
  dtype: 'float32',
  dims: [BATCH, ...first.dims.slice(1)],
  data: Float32Array.from({ length: BATCH * first.data.length }, (_, i) => {
    const clip = Math.floor(i / first.data.length);
    return data[clip]!.data[i % first.data.length]!;
  }),
} as const;

const seconds = await interleave(rounds, {
  model: async () => {
    for (let done = 0; done < clips; done += BATCH) await extractor.run(batch);
  },
  whole: async () => {
    let done = 0;
    for await (const { error } of embedImages(extractor, work, {
      transform,
      batch: BATCH,
      clips: { frames: FRAMES },
    })) {
      if (error) throw error;
      done++;
    }
    if (done !== clips) throw new Error(`${done} of ${clips} clips came out`);
  },
});
const report = new Report();
const speed = ratios(seconds.model, seconds.whole);
report.add('clips of 16 frames through r3d_18, of the model alone', speed, '≥ 0.90', speed.median >= 0.9);
process.exitCode = report.results.every(({ holds }) => holds) ? 0 : 1;
