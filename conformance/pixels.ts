/** The tensors of photos by every configuration of transformers, timm and open_clip at hand, against those of the library. */
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findTransform, isTapirError, loadImage, type Transform } from 'onnx-tapir';

/** A library's answer to one configuration, by photo and door; or why it has none. */
interface Reference {
  readonly versions: Readonly<Record<string, string>>;
  readonly results: Readonly<
    Record<
      string,
      Readonly<
        Record<string, { readonly error?: string; readonly tensors?: Readonly<Record<string, string>> }>
      >
    >
  >;
}

/** How the configurations of one library came out. */
export interface PixelCount {
  readonly library: string;
  readonly configurations: number;
  /** Configurations of which no tensor differs. */
  readonly right: number;
  readonly wrong: number;
  /** Refused, by the library as well. */
  readonly refused: number;
  /** Refused, though the library gives a tensor: the configuration, and why. */
  readonly lost: readonly (readonly [string, string])[];
  readonly tensors: number;
  readonly equal: number;
  /** Photos that are refused though the library gives a tensor. */
  readonly refusedTensors: number;
  readonly differing: readonly string[];
}

/** What both tables of pixels need. */
export interface PixelResult {
  readonly versions: Readonly<Record<string, string>>;
  readonly counts: readonly PixelCount[];
}

/** Doors as options of a transform. */
const DOORS: Readonly<Record<string, { readonly alpha?: 'white'; readonly orientation?: 'exif' }>> = {
  drop: {},
  white: { alpha: 'white' },
  exif: { orientation: 'exif' },
};
const SHA_256 = /^[0-9a-f]{64}$/;

/** Asks the libraries of a Python, and compares. */
export async function comparePixels(python: string, folder: string): Promise<PixelResult> {
  const script = fileURLToPath(new URL('pixels.py', import.meta.url));
  execFileSync(python, [script, folder], { stdio: 'inherit' });
  return comparePixelsIn(folder);
}

/** Compares with what a run of pixels.py has left in a folder. */
export async function comparePixelsIn(folder: string): Promise<PixelResult> {
  const { versions, results } = JSON.parse(readFileSync(join(folder, 'reference.json'), 'utf8')) as Reference;
  const isPillow13 = Number.parseInt(versions['Pillow']!) >= 13;
  const counts: PixelCount[] = [];
  for (const [library, configurations] of Object.entries(results)) {
    const count = { right: 0, wrong: 0, refused: 0, tensors: 0, equal: 0, refusedTensors: 0 };
    const lost: (readonly [string, string])[] = [];
    const differing: string[] = [];
    for (const [name, { error, tensors = {} }] of Object.entries(configurations)) {
      const answers = Object.values(tensors).filter((hash) => SHA_256.test(hash)).length;
      // A photo that needs no resize says nothing of a resize that the library cannot do.
      const isAnswered = error === undefined && answers > Object.keys(tensors).length / 2;
      const found = await findOwn(join(folder, library, name, 'onnx/model.onnx'), isPillow13);
      if (typeof found === 'string') {
        if (isAnswered) lost.push([name, found]);
        else count.refused++;
        continue;
      }
      let isWrong = false;
      for (const [what, expected] of Object.entries(tensors)) {
        const [photo, door] = what.split(' ') as [string, string];
        const actual = await hashOf(join(folder, 'photos', photo), found.with(DOORS[door]!));
        // What the library refuses, it does not tell.
        if (!SHA_256.test(expected)) continue;
        count.tensors++;
        if (actual === expected) count.equal++;
        else if (actual === undefined) count.refusedTensors++;
        else {
          isWrong = true;
          differing.push(`${name}: ${what}`);
        }
      }
      if (isWrong) count.wrong++;
      else count.right++;
    }
    counts.push({ library, configurations: Object.keys(configurations).length, ...count, lost, differing });
  }
  return { versions, counts };
}

/** The transform beside a model, or why there is none. */
async function findOwn(model: string, isPillow13: boolean): Promise<Transform | string> {
  try {
    const { transform } = (await findTransform(model))!;
    const { resampler } = transform.options;
    return isPillow13 && resampler === 'pillow' ? transform.with({ resampler: 'pillow-13' }) : transform;
  } catch (error) {
    if (!isTapirError(error, 'TRANSFORM_UNSUPPORTED')) throw error;
    return `"${error.details.field}": ${error.details.reason}`;
  }
}

/** The SHA-256 of a tensor; undefined for a photo that is refused. */
async function hashOf(photo: string, transform: Transform): Promise<string | undefined> {
  try {
    const { data } = (await loadImage(photo, transform)).toTensor();
    return createHash('sha256').update(data).digest('hex');
  } catch (error) {
    if (isTapirError(error)) return undefined;
    throw error;
  }
}

/** As Markdown. */
export function describePixels({ versions, counts }: PixelResult): string {
  const head = ['library', 'configurations', 'right', '**wrong**', 'refused', 'refused though it answers'];
  const more = ['tensors', 'equal', 'photos refused'];
  const rows = counts.map((count) => [
    `${count.library} ${versions[count.library]}`,
    count.configurations,
    count.right,
    count.wrong,
    count.refused,
    count.lost.length,
    count.tensors,
    count.equal,
    count.refusedTensors,
  ]);
  const table = [[...head, ...more], [...head, ...more].map(() => '---'), ...rows].map(
    (cells) => `| ${cells.join(' | ')} |`,
  );
  const reasons = counts.flatMap(({ library, lost }) =>
    lost.map(([name, why]) => `- ${library}, ${name}: ${why}`),
  );
  const different = counts.flatMap(({ library, differing }) =>
    differing.map((what) => `- different: ${library}, ${what}`),
  );
  return `With Pillow ${versions['Pillow']}: each photo as \`convert("RGB")\` gives it, turned ones also with \`orientation=exif\`, transparent ones also with \`alpha=white\`.\n\n${table.join('\n')}\n\n${[...reasons, ...different].join('\n')}`;
}
