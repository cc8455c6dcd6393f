/**
 * Random photos through processors of transformers, those with several tensors first, here and there: none may differ in a bit.
 *
 * `npx tsx bench/peers/patches.ts --python VENV/bin/python [--photos 500] [--seed 1]`
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadImage, transformFromConfig, type Tensor, type Transform } from 'onnx-tapir';

const { values } = parseArgs({
  options: {
    python: { type: 'string', default: 'python3' },
    photos: { type: 'string', default: '500' },
    seed: { type: 'string', default: '1' },
  },
});

const NAFLEX = { image_processor_type: 'Siglip2ImageProcessor' } as const;
const QWEN = { image_processor_type: 'Qwen2VLImageProcessor', max_pixels: 512 * 28 * 28 } as const;
const DINO = { image_processor_type: 'DINOv3ViTImageProcessor' } as const;
const BIT = {
  image_processor_type: 'BitImageProcessor',
  size: { shortest_edge: 256 },
  crop_size: { height: 224, width: 224 },
  resample: 3,
  do_resize: true,
  do_center_crop: true,
  do_rescale: true,
  do_normalize: true,
  image_mean: [0.485, 0.456, 0.406],
  image_std: [0.229, 0.224, 0.225],
} as const;
const SIGLIP = {
  image_processor_type: 'SiglipImageProcessor',
  size: { height: 224, width: 224 },
  resample: 3,
  do_resize: true,
  do_rescale: true,
  do_normalize: true,
  image_mean: [0.5, 0.5, 0.5],
  image_std: [0.5, 0.5, 0.5],
} as const;
const CONFIGURATIONS = [
  { config: NAFLEX, backend: 'torchvision' },
  { config: NAFLEX, backend: 'pil' },
  { config: { ...NAFLEX, patch_size: 14, max_num_patches: 576 }, backend: 'torchvision' },
  { config: { ...NAFLEX, patch_size: 32, max_num_patches: 64 }, backend: 'pil' },
  { config: QWEN, backend: 'torchvision' },
  { config: QWEN, backend: 'pil' },
  {
    config: {
      ...QWEN,
      patch_size: 16,
      size: { shortest_edge: 65_536, longest_edge: 524_288 },
      max_pixels: undefined,
    },
    backend: 'torchvision',
  },
  { config: { ...DINO, size: { height: 256, width: 256 } }, backend: 'torchvision' },
  // DINOv2's processor, and SigLIP's.
  { config: BIT, backend: 'torchvision' },
  { config: BIT, backend: 'pil' },
  { config: SIGLIP, backend: 'torchvision' },
  { config: SIGLIP, backend: 'pil' },
] as const;

interface Line {
  readonly path: string;
  readonly size: readonly [width: number, height: number];
  readonly tensors: readonly Readonly<Record<string, unknown>>[];
}

/** The first line. */
interface Versions {
  readonly pillow: string;
  readonly transformers: string;
}

function describe(tensors: Readonly<Record<string, Tensor>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(tensors).map(([name, { dtype, dims, data }]) => {
      const { buffer, byteOffset, byteLength } = data as Float32Array;
      const sha256 = createHash('sha256')
        .update(new Uint8Array(buffer, byteOffset, byteLength))
        .digest('hex');
      return [name, [dtype, dims, sha256]];
    }),
  );
}

const folder = mkdtempSync(join(tmpdir(), 'tapir-patches-'));
let transforms: readonly Transform[] = [];
const script = fileURLToPath(new URL('patches_python.py', import.meta.url));
const args = [script, folder, values.photos, values.seed, JSON.stringify(CONFIGURATIONS)];
const python = spawn(values.python, args, { stdio: ['ignore', 'pipe', 'inherit'] });
const ended = new Promise<number | null>((resolve) => python.on('close', resolve));
const differing = CONFIGURATIONS.map(() => 0);
let photos = 0;
for await (const text of createInterface(python.stdout)) {
  const line = JSON.parse(text) as Line | Versions;
  if ('pillow' in line) {
    console.log(`transformers ${line.transformers}, Pillow ${line.pillow}`);
    const pillow = Number.parseInt(line.pillow, 10) < 13 ? 'pillow' : 'pillow-13';
    transforms = CONFIGURATIONS.map(({ config, backend }) => {
      const transform = transformFromConfig(config, { backend });
      return backend === 'pil' ? transform.with({ resampler: pillow }) : transform;
    });
    continue;
  }
  const { path, size, tensors } = line;
  photos++;
  for (const [at, transform] of transforms.entries()) {
    const ours = describe((await loadImage(path, transform)).toTensors());
    if (JSON.stringify(ours) === JSON.stringify(tensors[at])) continue;
    differing[at]!++;
    console.log(`${size.join(' × ')} differs: ${JSON.stringify(CONFIGURATIONS[at])}`);
  }
}
rmSync(folder, { recursive: true });
if ((await ended) !== 0) throw new Error('Python failed; its message is above');
for (const [at, { config, backend }] of CONFIGURATIONS.entries())
  console.log(`${differing[at]} of ${photos} differ: ${backend} ${JSON.stringify(config)}`);
process.exitCode = differing.some((count) => count > 0) ? 1 : 0;
