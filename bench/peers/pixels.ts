/**
 * The same photos and configurations through other libraries: equal bits, or how far. Prints the table of docs/compared.md.
 *
 * `npx tsx bench/peers/pixels.ts --python VENV/bin/python [--npm FOLDER] [--photos 60] [--seed 1]`
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadImage, transformFromConfig, type Transform } from 'onnx-tapir';
import { TRANSFORMERS } from './requirements.js';

const { values } = parseArgs({
  options: {
    python: { type: 'string', default: 'python3' },
    npm: { type: 'string' },
    photos: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
  },
});

const STEPS = {
  do_convert_rgb: true,
  do_resize: true,
  do_rescale: true,
  do_normalize: true,
  rescale_factor: 1 / 255,
};
const CLIP = {
  image_processor_type: 'CLIPImageProcessor',
  ...STEPS,
  do_center_crop: true,
  size: { shortest_edge: 224 },
  crop_size: { height: 224, width: 224 },
  resample: 3,
  image_mean: [0.48145466, 0.4578275, 0.40821073],
  image_std: [0.26862954, 0.26130258, 0.27577711],
};
const SIGLIP = {
  image_processor_type: 'SiglipImageProcessor',
  ...STEPS,
  size: { height: 224, width: 224 },
  resample: 3,
  image_mean: [0.5, 0.5, 0.5],
  image_std: [0.5, 0.5, 0.5],
};
const DINOV2 = {
  image_processor_type: 'BitImageProcessor',
  ...STEPS,
  do_center_crop: true,
  size: { shortest_edge: 256 },
  crop_size: { height: 224, width: 224 },
  resample: 3,
  image_mean: [0.485, 0.456, 0.406],
  image_std: [0.229, 0.224, 0.225],
};
const TIMM = (interpolation: string, crop_mode: string) => ({
  pretrained_cfg: {
    input_size: [3, 224, 224],
    interpolation,
    crop_pct: 0.95,
    crop_mode,
    mean: [0.485, 0.456, 0.406],
    std: [0.229, 0.224, 0.225],
  },
});
const OPEN_CLIP = (resize_mode: string) => ({
  preprocess_cfg: {
    size: [224, 224],
    mode: 'RGB',
    mean: CLIP.image_mean,
    std: CLIP.image_std,
    interpolation: 'bicubic',
    resize_mode,
    fill_color: 0,
  },
});

/** A library and what it is given; here, transformers' own configuration with a backend, or that of the library. */
interface Case {
  readonly library: string;
  readonly name: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly backend?: 'torchvision' | 'pil';
}

const named = { CLIP, SigLIP: SIGLIP, DINOv2: DINOV2 };
const CASES: readonly Case[] = [
  ...Object.entries(named).flatMap(([name, config]) => [
    { library: 'transformers', name, config, backend: 'torchvision' as const },
    { library: 'transformers-pil', name, config, backend: 'pil' as const },
  ]),
  { library: 'timm', name: 'bicubic, center', config: TIMM('bicubic', 'center') },
  { library: 'timm', name: 'bilinear, border', config: TIMM('bilinear', 'border') },
  { library: 'open_clip', name: 'shortest', config: OPEN_CLIP('shortest') },
  { library: 'open_clip', name: 'squash', config: OPEN_CLIP('squash') },
  { library: 'open_clip', name: 'longest', config: OPEN_CLIP('longest') },
  { library: 'fastembed', name: 'CLIP', config: CLIP, backend: 'pil' },
  { library: 'sentence-transformers', name: 'CLIP', config: CLIP, backend: 'torchvision' },
  ...Object.entries(named).map(([name, config]) => ({
    library: 'transformers.js',
    name,
    config,
    backend: 'pil' as const,
  })),
];

const script = (name: string): string => fileURLToPath(new URL(name, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'tapir-pixels-'));
const photos = join(folder, 'photos');

/** What a library said: its version and how many numbers each photo became, or why it did not run. */
interface Said {
  readonly at: number;
  readonly version?: string;
  readonly counts?: readonly number[];
  readonly reason?: string;
}

function runPython(): { readonly pillow: string; readonly said: Said[] } {
  const configurations = JSON.stringify(CASES.map(({ library, config }) => [library, config]));
  const args = [script('pixels_python.py'), folder, values.photos, values.seed, configurations];
  const printed = execFileSync(values.python, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const lines = printed.split('\n').filter((line) => line.startsWith('{'));
  const [{ pillow }, ...said] = lines.map((line) => JSON.parse(line) as Said) as [
    { pillow: string },
    ...Said[],
  ];
  return { pillow, said };
}

function runTransformersJs(at: number): Said {
  if (values.npm === undefined)
    return { at, reason: 'no folder with @huggingface/transformers: --npm FOLDER' };
  const model = join(folder, `model-${at}`);
  mkdirSync(model);
  const config = join(model, 'preprocessor_config.json');
  writeFileSync(config, JSON.stringify(CASES[at]!.config));
  const entry = join(values.npm, TRANSFORMERS);
  const args = [script('pixels_transformers.js'), photos, config, join(folder, `${at}.f32`), entry];
  return { at, ...(JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })) as object) };
}

/** How many photos have another size or other bits, and the mean and the largest difference of those of one size, in levels of 255. */
async function compare(
  at: number,
  counts: readonly number[],
  transform: Transform,
): Promise<readonly [unlike: number, mean: number, largest: number]> {
  const bytes = readFileSync(join(folder, `${at}.f32`));
  const theirs = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  const std = transform.options.std ?? [1, 1, 1];
  let [start, unlike, compared, sum, largest] = [0, 0, 0, 0, 0];
  for (const [index, name] of readdirSync(photos).toSorted().entries()) {
    const { data } = (await loadImage(join(photos, name), transform)).toTensor();
    const plane = data.length / 3;
    let isUnlike = counts[index] !== data.length;
    if (!isUnlike)
      for (const [k, ours] of data.entries()) {
        const levels = Math.abs(Number(ours) - theirs[start + k]!) * std[Math.floor(k / plane)]! * 255;
        isUnlike ||= levels > 0;
        largest = Math.max(largest, levels);
        sum += levels;
        compared++;
      }
    start += counts[index]!;
    if (isUnlike) unlike++;
  }
  return [unlike, sum / compared, largest];
}

const { pillow, said } = runPython();
for (const [at, { library }] of CASES.entries())
  if (library === 'transformers.js') said.push(runTransformersJs(at));
console.log(`${values.photos} photos, seed ${values.seed}; Pillow ${pillow}\n`);
console.log(
  '| library | configuration | photos with other bits | mean difference, of 255 levels | largest |',
);
console.log('| --- | --- | ---: | ---: | ---: |');
for (const { at, version, counts, reason } of said) {
  const { library, name, config, backend } = CASES[at]!;
  const first = `| ${library} ${version ?? ''} | ${name} |`;
  if (counts === undefined) {
    console.log(`${first} did not run: ${reason} | | |`);
    continue;
  }
  const transform = transformFromConfig(config, backend && { backend });
  // The library's resize is that of its Pillow; torch's does not depend on it.
  const isPillow13 = backend !== 'torchvision' && Number.parseInt(pillow, 10) >= 13;
  const [unlike, ...levels] = await compare(
    at,
    counts,
    isPillow13 ? transform.with({ resampler: 'pillow-13' }) : transform,
  );
  console.log(
    `${first} ${unlike} of ${values.photos} | ${levels.map((one) => Number(one.toPrecision(2))).join(' | ')} |`,
  );
}
rmSync(folder, { recursive: true });
