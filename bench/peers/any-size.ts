/**
 * DINOv2 and DINOv3 exported from transformers for photos of any size, with random weights: tokens at three sizes, here and in torch.
 *
 * `npx tsx bench/peers/any-size.ts --python VENV/bin/python`
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import {
  createFeatureExtractor,
  createTransform,
  embedImages,
  findTransform,
  loadImage,
  type Tensor,
} from 'onnx-tapir';
import { saveNpy } from './npy.js';

const { values } = parseArgs({ options: { python: { type: 'string', default: 'python3' } } });
const PHOTO = fileURLToPath(new URL('../../examples/photos/sea/sea-0.jpg', import.meta.url));
/** Sizes as users ask for them, and the transforms that they mean. Multiples of both patches, 14 and 16. */
const SIZES = [
  { size: 224, resize: 256, crop: 224 },
  { size: { height: 448, width: 448 }, resize: 512, crop: 448 },
  { size: { shortest: 448, multiple: 112 }, resize: { shortest: 448, multiple: 112 }, crop: null },
] as const;
/** Of the range of torch's numbers. */
const TOLERANCE = 1e-4;

const folder = mkdtempSync(join(tmpdir(), 'tapir-any-size-'));
const script = fileURLToPath(new URL('any_size.py', import.meta.url));

function python(step: string): void {
  const { status } = spawnSync(values.python, [script, step, folder], {
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  if (status !== 0) throw new Error(`${step} failed; its message is above`);
}

/** The floats of a .npy file of version 1. */
function readFloats(path: string): Float32Array {
  const bytes = readFileSync(path);
  const start = 10 + bytes.readUInt16LE(8);
  return new Float32Array(bytes.buffer.slice(bytes.byteOffset + start, bytes.byteOffset + bytes.length));
}

let farthest = 0;
try {
  python('export');
  const found: { readonly path: string; readonly what: string; readonly tokens: Tensor }[] = [];
  for (const name of ['dinov2', 'dinov3']) {
    const file = join(folder, name, 'model.onnx');
    await using extractor = await createFeatureExtractor(file, ['tokens']);
    const { transform } = (await findTransform(file))!;
    for (const [at, { size, ...steps }] of SIZES.entries()) {
      for await (const { features, error } of embedImages(extractor, [PHOTO], { transform: { size } })) {
        if (error) throw error;
        const { dims, data } = (
          await loadImage(PHOTO, createTransform({ ...transform.options, ...steps }))
        ).toTensor();
        const path = join(folder, name, `${at}`);
        saveNpy(`${path}.npy`, dims, [data]);
        found.push({ path, what: `${name} ${JSON.stringify(size)}`, tokens: features.tokens });
      }
    }
  }
  python('run');
  for (const { path, what, tokens } of found) {
    const expected = readFloats(`${path}.expected.npy`);
    const ours = tokens.data as Float32Array;
    let [least, most, apart] = [Infinity, -Infinity, expected.length === ours.length ? 0 : Infinity];
    for (const [i, value] of expected.entries()) {
      least = Math.min(least, value);
      most = Math.max(most, value);
      apart = Math.max(apart, Math.abs(value - ours[i]!));
    }
    const share = apart / (most - least);
    farthest = Math.max(farthest, share);
    console.log(`${what}: [${tokens.dims.join(', ')}], ${share.toExponential(1)} of the range`);
  }
} finally {
  rmSync(folder, { recursive: true });
}
if (!(farthest <= TOLERANCE)) process.exitCode = 1;
