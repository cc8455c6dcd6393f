/** Classes of whole photos, of tiles and of clips, by labels in the model's own file. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { classifyImages } from 'onnx-tapir/features';
import sharp from 'sharp';
import { expect, it } from 'vitest';
import { scratchFolder } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { runTapir } from '../../../support/run.js';

const folder = mkdtempSync(join(scratchFolder(), 'classify-'));
const LABELS = ['red', 'green', 'blue'];
const transform = { resize: { height: 16, width: 16 }, crop: 16, mean: null, std: null } as const;

/** A model whose scores are the means of the channels. */
function channelsModel(name: string, places: readonly (string | number)[]): string {
  const path = join(folder, name);
  writeFileSync(
    path,
    modelBytes({
      inputs: [{ name: 'input', dims: ['batch', 3, ...places] }],
      outputs: [{ name: 'scores', dims: ['batch', 3] }],
      nodes: [
        { name: '/pool', op: 'GlobalAveragePool', inputs: ['input'], outputs: ['pooled'] },
        { name: '/flat', op: 'Flatten', inputs: ['pooled'], outputs: ['scores'] },
      ],
    }),
  );
  writeFileSync(`${path}.tapir.json`, JSON.stringify({ transform, labels: LABELS }));
  return path;
}

async function save(path: string, ...colours: readonly (readonly [number, number, number])[]): Promise<void> {
  const data = Buffer.from(colours.flatMap((colour) => Array.from({ length: 16 * 16 }, () => colour).flat()));
  const raw = { width: 16, height: 16 * colours.length, channels: 3 } as const;
  await sharp(data, { raw }).png().toFile(path);
}

const RED = [250, 10, 20] as const;
const BLUE = [10, 20, 250] as const;

it('names the class of each tile', async () => {
  const photo = join(folder, 'tall.png');
  await save(photo, RED, BLUE);
  const rows = [];
  const model = channelsModel('photo.onnx', [16, 16]);
  for await (const { tile, classes } of classifyImages(model, [photo], { tiles: { size: 16 }, top: 1 }))
    rows.push([tile?.y, classes[0]!.label]);
  expect(rows).toEqual([
    [0, 'red'],
    [16, 'blue'],
  ]);
});

it('names the class of each clip, in code and as a command', async () => {
  const model = channelsModel('video.onnx', [2, 16, 16]);
  const video = join(folder, 'videos/a');
  mkdirSync(video, { recursive: true });
  for (const [i, colour] of [RED, RED, BLUE, BLUE].entries())
    await save(join(video, `${String(i)}.png`), colour);
  const rows = [];
  const clips = { frames: 2, stride: 1 };
  const request = { resampler: 'torch', antialias: false } as const;
  for await (const { path, clipStart, classes } of classifyImages(model, join(folder, 'videos'), {
    clips,
    transform: request,
  }))
    rows.push([path, clipStart, classes[0]!.label]);
  expect(rows).toEqual([
    ['a', 0, 'red'],
    ['a', 2, 'blue'],
  ]);
  const flags = ['--clip', '2,stride=1', '--top', '1', '--transform', 'resampler=torch,antialias=false'];
  const ended = await runTapir(['classify', join(folder, 'videos'), '--model', model, ...flags]);
  expect(ended.stdout).toMatch(/^a, frame 0: red 0\.\d+\na, frame 2: blue 0\.\d+\n$/);
  expect(ended.code, ended.stderr).toBe(0);
});
