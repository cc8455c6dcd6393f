/** `tapir draw cam`: draws where in a photo a score comes from. */
import { addPhotoFlags, type PhotoFlags } from '../../flags/photo-flags.js';
import { shown } from '../../../base/printable.js';
import type { Command } from 'commander';
import { drawHeatmap } from '../../../products/explain/photos/draw-heatmap.js';
import { pictureTransform } from '../../../photos/feeds/picture-feeds.js';
import { planFeeds } from '../../../photos/feeds/plan-feeds.js';
import { writeAtomically } from '../../../base/atomic-file.js';
import { invalidOption } from '../../../base/checks.js';
import { writeWithCompanion } from '../../../base/folder-lock.js';
import { encodeNpy } from '../../../datasets/formats/npy.js';
import {
  createAttribution,
  type Attribution,
  type AttributionResult,
} from '../../../products/explain/attribution.js';
import { ATTRIBUTION_FIELDS, type AttributionOptions } from '../../../products/explain/options.js';
import type { AttributionTarget } from '../../../products/explain/targets.js';
import { openModel } from '../../../run/model/open/open-model.js';
import { loadImage } from '../../../photos/feeds/load-image.js';
import { checkAbsent } from '../../../base/atomic-file.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../../flags/find-model.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import { LABELS_HELP, readLabelsFlag } from '../../flags/labels-flag.js';
import { readTransformFlag } from '../../flags/open-extractor.js';
import { printJson, type Terminal } from '../../terminal/terminal.js';
import { rare } from '../../flags/rare.js';

/** The flags that are options of `createAttribution`. */
const FLAGS = {
  layer: '--layer <name>',
  method: '--method <name>',
  output: rare('--output <name>'),
  device: '--device <device>',
} as const;

interface CamFlags extends CommonFlags, PhotoFlags, Pick<AttributionOptions, keyof typeof FLAGS> {
  readonly class?: string;
  readonly labels?: string;
  readonly out?: string;
  readonly map?: string;
  readonly overwrite: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('cam')
    .description('draw where in a photo the score of a class comes from')
    .argument('<model>', MODEL_HELP)
    .argument('<photo>', 'image file')
    .option('--class <class>', 'index of the class, or its label (default: the predicted class)')
    .option('--labels <file>', LABELS_HELP)
    .option('-o, --out <file>', 'PNG to write: the heat map over the photo as the model sees it')
    .option('--map <file>', '.npy to write: the map as the method defines it, with negative values')
    .option('--overwrite', 'replace files that exist', false)
    .option(rare('--json'), 'print class, score and the range of the map as JSON', false)
    .option(rare(YES_FLAG), YES_HELP, false)
    .action((model: string, photo: string, flags: CamFlags) => runCam(terminal, model, photo, flags));
  addFlags(command, ATTRIBUTION_FIELDS, FLAGS);
  addPhotoFlags(command, ['transform']);
}

async function runCam(terminal: Terminal, path: string, photo: string, flags: CamFlags): Promise<void> {
  const { method, out, map, json, overwrite } = flags;
  if (out === undefined && map === undefined && !json)
    throw invalidOption('--out', 'given, or --map, or --json: nothing would be kept', out);
  // A map beside a picture comes first, and may be that of a killed run.
  const last = out ?? map;
  if (last !== undefined && !overwrite) checkAbsent(last);
  const labels = await readLabelsFlag(flags.labels);
  const file = await findModelFile(path, terminal, flags.yes);
  const model = await openModel(file);
  const transform = readTransformFlag(terminal, flags, model);
  await using attribution = await createAttribution(model, {
    ...readFlags(ATTRIBUTION_FIELDS, flags),
    labels,
  });
  for (const line of describeChoice(attribution, flags)) terminal.err(`${line}\n`);
  const target = readClass(flags.class, attribution.labels);
  const image = await loadImage(
    photo,
    pictureTransform(planFeeds(attribution, transform, { takes: 'picture' })),
  );
  const { signal } = terminal;
  const result = await attribution.run(image.toTensor(), { target, signal });
  const mapBytes = encodeNpy(result.map);
  if (out !== undefined) {
    const picture = await drawHeatmap(image, result.heatmap);
    const write = (): Promise<void> => writeAtomically(out, picture);
    await (map === undefined ? write() : writeWithCompanion(map, mapBytes, overwrite, write));
  } else if (map !== undefined) await writeAtomically(map, mapBytes);
  const facts = describe(result);
  const { layer, output } = result;
  if (json) return printJson(terminal, { model: file, photo, method, layer, output, ...facts });
  const name = facts.label === null ? '' : ` (${shown(facts.label)})`;
  terminal.out(
    `class ${facts.class}${name}, score ${facts.score.toFixed(3)}, ${method} of ${facts.dims.slice(1).join('×')}\n`,
  );
  for (const file of [out, map]) if (file !== undefined) terminal.out(`written: ${shown(file)}\n`);
}

/** Says which scores and which layer were chosen where the flags name neither. */
function describeChoice({ output, skipped, layer }: Attribution, flags: CamFlags): string[] {
  const scores = `scores: ${shown(output)}, before the ${skipped} at the end (--output names another value)`;
  const places = `layer: ${shown(layer ?? '')}, the last one with places (--layer names another one)`;
  return [
    ...(skipped === null ? [] : [scores]),
    ...(layer === null || flags.layer !== undefined ? [] : [places]),
  ];
}

function describe({ classes, labels, scores, map }: AttributionResult) {
  const [index, label, score] = [classes[0]!, labels[0]!, scores[0]!];
  const ordered = map.data.toSorted();
  const range = { least: ordered[0]!, largest: ordered.at(-1)! };
  return { class: index, label, score, dims: map.dims, ...range };
}

/** A class as --class names it: digits are an index, unless a label is the same. */
function readClass(given: string | undefined, labels: readonly string[] | null): AttributionTarget {
  if (given === undefined) return 'predicted';
  return /^\d+$/.test(given) && !labels?.includes(given) ? Number(given) : given;
}
