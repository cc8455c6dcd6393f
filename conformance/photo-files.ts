/**
 * The pixels in files that take photos (`input: 'photo'`), run by ONNX Runtime on photos of drawn sizes, against the product's own tensors, which
 * `pixels.ts` compares with the libraries. `PHOTO_FILE_SIZES` is the number of sizes for each transform (50 before a release); with
 * `PYTHON`, the configurations of timm and open_clip are tried as well.
 */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isTapirError } from '../src/base/errors.js';
import { createRandom } from '../src/base/random.js';
import { createPhotoFront } from '../src/photos/graph/photo-front.js';
import { transformFromConfig } from '../src/photos/images/configs/transform-from-config.js';
import { createTransform } from '../src/photos/feeds/create-transform.js';
import type { Transform } from '../src/photos/images/transform/transform.js';
import { madePhoto, photoFile, PhotoSession } from '../test/support/photo-files.js';

/** How the transforms of one source came out. */
export interface PhotoFileCount {
  readonly source: string;
  /** Distinct ones. */
  readonly transforms: number;
  readonly photos: number;
  readonly equal: number;
  /** Photos that the transform itself refuses. */
  readonly misfits: number;
  readonly differing: readonly string[];
  readonly refused: readonly string[];
}

/** Distinct options by the name that they were met first under. */
type Named = ReadonlyMap<string, Transform>;

/** Files of this repository. */
const read = (path: string): unknown =>
  JSON.parse(readFileSync(new URL(`../${path}`, import.meta.url), 'utf8'));

function torchvision(): [string, () => Transform][] {
  const { networks } = read('models/torchvision-weights.json') as {
    readonly networks: Readonly<Record<string, { readonly enum: string; readonly files: object }>>;
  };
  return Object.values(networks).flatMap((network) =>
    Object.keys(network.files).map((version): [string, () => Transform] => [
      `${network.enum}.${version}`,
      () => createTransform(`torchvision:${network.enum}.${version}`),
    ]),
  );
}

function transformers(): [string, () => Transform][] {
  const configs = read('conformance/configs/transformers.json') as Readonly<
    Record<string, readonly [string, object]>
  >;
  return Object.entries(configs).flatMap(([name, [, config]]) =>
    (['pil', 'torchvision'] as const).map((backend): [string, () => Transform] => [
      `${name}, ${backend}`,
      () => transformFromConfig(config, { backend }),
    ]),
  );
}

/** The configurations that pixels.py has written for a library. */
function written(folder: string, file: string): [string, () => Transform][] {
  return readdirSync(folder).map((name): [string, () => Transform] => [
    name,
    () => transformFromConfig(JSON.parse(readFileSync(join(folder, name, file), 'utf8'))),
  ]);
}

/** Every filter, resize, crop and order of passes beside those of libraries. */
function drawn(): [string, () => Transform][] {
  const sizes = [{ height: 90, width: 120 }, 224] as const;
  const filters = ['nearest', 'box', 'bilinear', 'hamming', 'bicubic', 'lanczos'] as const;
  const resamplers = ['pillow', 'pillow-13', 'torch'] as const;
  const all = resamplers.flatMap((resampler) =>
    filters.flatMap((interpolation) =>
      sizes.map((resize) => ({ resampler, interpolation, resize, crop: 200, fill: 9 })),
    ),
  );
  return all.flatMap((options): [string, () => Transform][] => {
    const isKnown = options.resampler !== 'torch' || !['box', 'hamming'].includes(options.interpolation);
    return isKnown ? [[JSON.stringify(options), () => createTransform(options)]] : [];
  });
}

function distinct(all: readonly (readonly [string, () => Transform])[]): Named {
  const known = new Map<string, string>();
  const named = new Map<string, Transform>();
  for (const [name, make] of all) {
    let transform: Transform;
    try {
      transform = make();
    } catch (error) {
      // Configurations that are not followed at all are counted by pixels.ts.
      if (isTapirError(error)) continue;
      throw error;
    }
    const key = JSON.stringify(transform.options);
    if (known.has(key)) continue;
    known.set(key, name);
    named.set(name, transform);
  }
  return named;
}

/** Sides of 1 to 4,000 pixels: most photos are small, some are strips. */
function* drawSizes(count: number, seed: number): Generator<readonly [number, number]> {
  const random = createRandom(seed);
  for (let i = 0; i < count; i++) {
    const most = [64, 500, 500, 1200, 4000][Math.floor(random() * 5)]!;
    const isStrip = random() < 0.15;
    const sides = [
      1 + Math.floor(random() * most),
      1 + Math.floor(random() * (isStrip ? 12 : most)),
    ] as const;
    yield random() < 0.5 ? sides : [sides[1], sides[0]];
  }
}

/**
 * Compares all sources.
 *
 * @param sizes - For each transform.
 * @param python - One that has timm and open_clip, whose configurations are tried as well.
 */
export async function countPhotoFiles(
  sizes: number,
  python: string | undefined,
  folder: string,
): Promise<PhotoFileCount[]> {
  const sources: Record<string, [string, () => Transform][]> = {
    'torchvision’s weights': torchvision(),
    'processors of transformers': transformers(),
    'filters and sizes': drawn(),
  };
  if (python !== undefined) {
    const script = fileURLToPath(new URL('pixels.py', import.meta.url));
    execFileSync(python, [script, folder, '--configs'], { stdio: 'inherit' });
    sources['timm'] = written(join(folder, 'timm'), 'config.json');
    sources['open_clip'] = written(join(folder, 'open_clip'), 'open_clip_config.json');
  }
  const counts: PhotoFileCount[] = [];
  for (const [source, all] of Object.entries(sources))
    counts.push(await countSource(source, distinct(all), sizes));
  return counts;
}

async function countSource(source: string, transforms: Named, sizes: number): Promise<PhotoFileCount> {
  const differing: string[] = [];
  const refused: string[] = [];
  let [photos, equal, misfits, seed] = [0, 0, 0, 1];
  for (const [name, transform] of transforms) {
    let file: Uint8Array;
    try {
      file = await photoFile(transform);
    } catch (error) {
      if (!isTapirError(error, 'TRANSFORM_UNSUPPORTED')) throw error;
      refused.push(`${name}: ${error.details.field}`);
      continue;
    }
    const front = createPhotoFront(transform, {
      dtype: 'float32',
      isLast: false,
      input: 'pixels',
      hasBatch: false,
    });
    const session = await PhotoSession.open(file);
    for (const [height, width] of drawSizes(sizes, ++seed)) {
      const photo = madePhoto(height, width, seed + height);
      const wanted = tensorOrMisfit(() => front.tensorOf([photo]));
      if (!wanted) {
        misfits++;
        continue;
      }
      photos++;
      const { dims, bytes } = await session.run(photo);
      const { buffer, byteOffset, byteLength } = wanted.data as Float32Array;
      const isEqual =
        dims.join() === wanted.dims.join() &&
        Buffer.compare(bytes, new Uint8Array(buffer, byteOffset, byteLength)) === 0;
      if (isEqual) equal++;
      else differing.push(`${name}: ${height} × ${width}`);
    }
    await session.close();
    process.stderr.write(`${source}, ${name}: ${equal} of ${photos}\n`);
  }
  return { source, transforms: transforms.size, photos, equal, misfits, differing, refused };
}

/** A tensor; undefined for a photo of which the transform leaves nothing. */
function tensorOrMisfit<Result>(make: () => Result): Result | undefined {
  try {
    return make();
  } catch (error) {
    if (isTapirError(error, 'IMAGE_MISFIT')) return undefined;
    throw error;
  }
}

/** The table, and what was refused. */
export function describePhotoFiles(counts: readonly PhotoFileCount[], sizes: number): string {
  const rows = counts.map(
    ({ source, transforms, refused, photos, equal, misfits }) =>
      `| ${source} | ${transforms} | ${refused.length} | ${photos} | ${equal} | ${photos - equal} | ${misfits} |`,
  );
  const lists = counts.flatMap(({ refused, differing }) => [
    ...refused.map((one) => `- refused: ${one}`),
    ...differing.map((one) => `- differs: ${one}`),
  ]);
  return `Files that take photos, by onnxruntime-node on one thread, against the tensors of \`loadImage\`: photos of noise and of slow colours, 1 to 4,000 pixels a side, strips among them; ${sizes} drawn sizes for each transform.

| transforms | distinct | refused | photos | equal | **different** | refused by the transform itself |
| ---------- | -------- | ------- | ------ | ----- | ------------- | ------------------------------- |
${rows.join('\n')}

${lists.join('\n')}`;
}
