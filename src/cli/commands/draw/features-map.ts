/** `tapir draw features-map`: draws what a layer sees in photos, places that look alike in like colours. */
import { addPhotoFlags, type PhotoFlags } from '../../flags/photo-flags.js';
import type { Command } from 'commander';
import { writeAtomically } from '../../../base/atomic-file.js';
import { shown } from '../../../base/printable.js';
import { chooseMap } from '../../../products/explain/chosen-map.js';
import {
  drawFeatures,
  FEATURE_DRAW_FIELDS,
  type FeatureDrawOptions,
} from '../../../products/explain/photos/draw-features.js';
import { pictureTransform } from '../../../photos/feeds/picture-feeds.js';
import { planFeeds } from '../../../photos/feeds/plan-feeds.js';
import { createFeatureExtractor } from '../../../extract/create-feature-extractor.js';
import { loadImage } from '../../../photos/feeds/load-image.js';
import type { LoadedImage } from '../../../photos/images/transform/load-pixels.js';
import { describeFeatures } from '../../../run/model/oracle/describe-features.js';
import { openModel, type OnnxModel } from '../../../run/model/open/open-model.js';
import type { FeatureInfo } from '../../../run/model/prune/feature-info.js';
import { checkAbsent } from '../../../base/atomic-file.js';
import type { Tensor } from '../../../onnx/tensor/tensor.js';
import { findModelFile, MODEL_HELP, YES_FLAG, YES_HELP, type CommonFlags } from '../../flags/find-model.js';
import { readTransformFlag } from '../../flags/open-extractor.js';
import { addFlags, readFlags } from '../../flags/option-flags.js';
import type { Terminal } from '../../terminal/terminal.js';

interface FeaturesMapFlags extends CommonFlags, PhotoFlags, Pick<FeatureDrawOptions, 'clip'> {
  readonly layer?: string;
  readonly out: string;
  readonly overwrite: boolean;
}

export function addCommand(program: Command, terminal: Terminal): void {
  const command = program
    .command('features-map')
    .description('draw what a layer sees in photos: places that look alike to the model get like colours')
    .argument('<model>', MODEL_HELP)
    .argument('<photo...>', 'image files: drawn side by side, and the same colour means the same in all')
    .requiredOption('-o, --out <file>', 'PNG to write')
    .option('--layer <name>', 'a map or tokens of patches (default: the last layer that is one)')
    .option('--overwrite', 'replace the file if it exists', false)
    .option(YES_FLAG, YES_HELP, false)
    .action((model: string, photos: string[], flags: FeaturesMapFlags) =>
      runFeaturesMap(terminal, model, photos, flags),
    );
  addFlags(command, FEATURE_DRAW_FIELDS, { clip: '--clip <share>' });
  addPhotoFlags(command, ['transform']);
}

async function runFeaturesMap(
  terminal: Terminal,
  path: string,
  photos: readonly string[],
  flags: FeaturesMapFlags,
): Promise<void> {
  const { out, overwrite, layer } = flags;
  if (!overwrite) checkAbsent(out);
  const model = await openModel(await findModelFile(path, terminal, flags.yes));
  const transform = readTransformFlag(terminal, flags, model);
  const chosen = await readLayer(model, layer);
  if (layer === undefined) terminal.err(`layer: ${shown(chosen.name)} (--layer names another one)\n`);
  const tokensToMap = chosen.dims?.length === 3;
  await using extractor = await createFeatureExtractor(model, { [chosen.name]: 'map' }, { tokensToMap });
  const fitted = pictureTransform(planFeeds(extractor, transform, { takes: 'picture' }));
  const [maps, images]: [Tensor[], LoadedImage[]] = [[], []];
  for (const photo of photos) {
    // oxlint-disable-next-line no-await-in-loop -- one photo at a time bounds the memory
    const image = await loadImage(photo, fitted);
    // oxlint-disable-next-line no-await-in-loop -- as above
    const { map } = await extractor.run(image.toTensor(), { signal: terminal.signal });
    maps.push(map!);
    images.push(image);
  }
  const [first] = images;
  const isOneSize = images.every(({ height, width }) => height === first!.height && width === first!.width);
  await writeAtomically(
    out,
    await drawFeatures(maps, {
      ...readFlags(FEATURE_DRAW_FIELDS, flags),
      layout: extractor.outputs[0]!.layout,
      imageSize: isOneSize ? { height: first!.height, width: first!.width } : undefined,
    }),
  );
  terminal.out(`written: ${shown(out)}\n`);
}

async function readLayer(model: OnnxModel, layer: string | undefined): Promise<FeatureInfo> {
  if (layer === undefined) return chooseMap(model);
  const [info] = await describeFeatures(model, [layer]);
  return info!;
}
