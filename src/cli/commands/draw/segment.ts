/** `tapir draw segment`: writes the class of every pixel of photos. */
import { addPhotoFlags, type PhotoFlags } from '../../flags/photo-flags.js';
import { basename, dirname, extname, join } from 'node:path';
import type { Command } from 'commander';
import { writeAtomically } from '../../../base/atomic-file.js';
import { invalidOption } from '../../../base/checks.js';
import { shown } from '../../../base/printable.js';
import { MOST_CLASSES, classColour, classMask } from '../../../products/maps/class-mask.js';
import { HEATMAP_OPACITY } from '../../../products/maps/colour-map.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { chooseTransform } from '../../../photos/feeds/choose-transform.js';
import { fitSize } from '../../../photos/feeds/photo-size.js';
import { transformFromConfig } from '../../../photos/images/configs/transform-from-config.js';
import { encodePng } from '../../../photos/images/encode.js';
import { encodePalettePng } from '../../../photos/images/palette-png.js';
import { loadImage } from '../../../photos/feeds/load-image.js';
import type { Transform } from '../../../photos/images/transform/transform.js';
import { openModel, type OnnxModel } from '../../../run/model/open/open-model.js';
import { checkAbsent } from '../../../base/atomic-file.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { MODEL_HELP, YES_FLAG, YES_HELP, findModelFile, type CommonFlags } from '../../flags/find-model.js';
import { LABELS_HELP, readLabelsFlag } from '../../flags/labels-flag.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';

interface SegmentFlags extends CommonFlags, PhotoFlags {
  readonly out: string;
  readonly output?: string;
  readonly labels?: string | true;
  readonly overlay: boolean;
  readonly overwrite: boolean;
}

/** What weights of segmentation are fed, where no configuration lies beside the model. */
const USUAL = 'torchvision:FCN_ResNet50_Weights.DEFAULT';

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('segment')
    .description('write the class of every pixel of photos, at their own size, as PNG with a palette')
    .argument('<model>', MODEL_HELP)
    .argument('<photo...>', 'image files')
    .requiredOption('-o, --out <file>', 'PNG to write; of several photos, each name is added: mask-cat.png')
    .option('--output <name>', 'the output with the scores (default: out, or the first one)')
    .option(
      '--labels [file]',
      `print the classes found and their shares; with a file, by its labels: ${LABELS_HELP}`,
    )
    .option('--overlay', 'lay the colours over the photo instead', false)
    .option('--overwrite', 'replace files that exist', false)
    .option('--json', 'print the shares of classes as JSON', false)
    .option(YES_FLAG, YES_HELP, false)
    .action((model: string, photos: string[], flags: SegmentFlags) =>
      runSegment(terminal, model, photos, flags),
    );
  addPhotoFlags(command, ['transform']);
}

async function runSegment(
  terminal: Terminal,
  path: string,
  photos: readonly string[],
  flags: SegmentFlags,
): Promise<void> {
  const { overwrite, overlay, json } = flags;
  const targets = targetsOf(photos, flags.out);
  if (!overwrite) for (const target of targets) checkAbsent(target);
  const labels = await readLabelsFlag(typeof flags.labels === 'string' ? flags.labels : undefined);
  const file = await findModelFile(path, terminal, flags.yes);
  const model = await openModel(file);
  const transform = wholePhotos(flags, file, model);
  await using extractor = await createFeatureExtractor(model, { [outputOf(model, flags.output)]: 'scores' });
  const found: object[] = [];
  for (const [at, photo] of photos.entries()) {
    terminal.signal.throwIfAborted();
    // oxlint-disable-next-line no-await-in-loop -- one photo after the other: masks are large
    const { mask, size, classes } = await segment(extractor, photo, transform);
    const drawn = overlay ? blend(photo, transform, mask) : encodePalettePng(size, mask, palette(classes));
    // oxlint-disable-next-line no-await-in-loop
    await writeAtomically(targets[at]!, await drawn);
    const shares = sharesOf(mask, labels);
    found.push({ photo, out: targets[at], ...size, shares });
    if (json) continue;
    terminal.out(`written: ${shown(targets[at]!)}\n`);
    if (flags.labels !== undefined)
      for (const { class: index, label, share } of shares)
        terminal.out(
          `  ${index}${label === null ? '' : ` ${shown(label)}`}: ${(100 * share).toFixed(1)} %\n`,
        );
  }
  if (json) printJson(terminal, found);
}

type Extractor = Awaited<ReturnType<typeof createFeatureExtractor>>;

async function segment(
  extractor: Extractor,
  photo: string,
  transform: Transform,
): Promise<{
  readonly mask: Uint8Array;
  readonly size: { height: number; width: number };
  readonly classes: number;
}> {
  const image = await loadImage(photo, transform);
  const { scores } = (await extractor.run(image.toTensor())) as Record<string, Tensor<'float32'>>;
  const { dims } = scores!;
  const classes = dims[1] ?? 0;
  if (dims.length !== 4 || classes > MOST_CLASSES)
    throw invalidOption(
      '--output',
      `scores [1, classes, height, width] of at most ${MOST_CLASSES} classes`,
      dims,
    );
  const size = { height: image.sourceHeight, width: image.sourceWidth };
  return { mask: classMask(scores!, size), size, classes };
}

/** The transform of the model, which must keep whole photos. Throws `OPTION_INVALID`. */
function wholePhotos(flags: PhotoFlags, file: string, model: OnnxModel): Transform {
  const { transform, size } = chooseTransform(flags.transform, file, () => transformFromConfig(USUAL));
  if (transform.options.crop !== null)
    throw invalidOption(
      '--transform',
      `without a crop, such as ${USUAL}: a mask covers the whole photo`,
      transform.options.crop,
    );
  return fitSize(transform, size, model);
}

function outputOf({ outputs }: OnnxModel, asked: string | undefined): string {
  const names = outputs.map(({ name }) => name);
  return asked ?? (names.includes('out') ? 'out' : names[0]!);
}

/** A file for each photo. Throws `OPTION_INVALID` for photos of one name, whose masks would replace each other. */
export function targetsOf(photos: readonly string[], out: string): string[] {
  if (photos.length === 1) return [out];
  const end = extname(out);
  const targets = photos.map((photo) =>
    join(dirname(out), `${basename(out, end)}-${basename(photo, extname(photo))}${end}`),
  );
  const folded = targets.map((target) => target.toLowerCase());
  const twice = folded.findIndex((target, i) => folded.indexOf(target) !== i);
  if (twice === -1) return targets;
  throw invalidOption(
    'photos',
    'photos of different names: the masks of others would have the same',
    photos[twice],
  );
}

function palette(classes: number): (readonly [number, number, number])[] {
  return Array.from({ length: classes }, (_, index) => classColour(index));
}

/** The photo with the colours of its classes; the first class, the background, stays as it is. */
async function blend(photo: string, transform: Transform, mask: Uint8Array): Promise<Uint8Array> {
  const { orientation, alpha } = transform.options;
  const { data, height, width } = await loadImage(photo, { resize: null, crop: null, orientation, alpha });
  const pixels = data.map((value, at) => {
    const index = mask[Math.floor(at / 3)]!;
    return index === 0
      ? value
      : Math.round(value * (1 - HEATMAP_OPACITY) + classColour(index)[at % 3]! * HEATMAP_OPACITY);
  });
  return encodePng({ data: pixels, height, width });
}

function sharesOf(mask: Uint8Array, labels: readonly string[] | undefined) {
  const counts = new Uint32Array(MOST_CLASSES);
  for (const index of mask) counts[index]!++;
  return Array.from(counts, (count, index) => ({
    class: index,
    label: labels?.[index] ?? null,
    share: count / mask.length,
  }))
    .filter(({ share }) => share > 0)
    .toSorted((a, b) => b.share - a.share);
}
