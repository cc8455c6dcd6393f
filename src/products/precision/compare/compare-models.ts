/** Embeds the same photos with two models and tells how far their vectors agree. */
import { resolve } from 'node:path';
import { describePrecision } from '../../../run/runtime/capabilities/capabilities.js';
import { DEVICE, type Device } from '../../../run/runtime/lanes/device.js';
import { identifyFile } from '../../../run/model/prune/identify-model.js';
import { readClassLabels } from '../../../extract/class-labels.js';
import type { TransformRequest } from '../../../photos/feeds/choose-transform.js';
import { photoFields, type PhotoOptions } from '../../../photos/feeds/photo-options.js';
import { statedTransform } from '../../../photos/feeds/photo-files.js';
import type { Transform } from '../../../photos/images/transform/transform.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { embedItems, type EmbeddedItem } from '../../../datasets/embed/embed-images.js';
import { recordTransform } from '../../../datasets/embed/describe-run.js';
import { sampleSource } from '../../../datasets/sources/sample-source.js';
import { setUpEmbedding, type EmbedSetup } from '../../../datasets/embed/embed-options.js';
import {
  callback,
  integer,
  optional,
  readOptions,
  signal,
  unchecked,
  type Fields,
} from '../../../base/options.js';
import { checkText, type Options } from '../../../base/checks.js';
import { writeAtomically } from '../../../base/atomic-file.js';
import { createBreathe } from '../../../onnx/tensor/vectors/breathe.js';
import { isTapirError } from '../../../base/errors.js';
import type { EmbedSource } from '../../../datasets/sources/open-source.js';
import type { Extractor } from '../../../extract/extractor.js';
import type { Progress } from '../../../base/progress.js';
import type { ReturnNodes } from '../../../run/model/open/return-nodes.js';
import { checkReplaceable } from '../../../base/html/check-replaceable.js';
import { OutputComparer } from './compare-outputs.js';
import { comparePixels, compareTransforms } from './compare-pixels.js';
import type { ComparedFailure, ComparedModel, ComparedOutput, ModelComparison } from './comparison.js';
import { openSides, readSide, type ComparedSource, type Sides } from './open-sides.js';
import { renderComparison } from './render-comparison.js';

/** Options of {@link compareModels}. It refuses `tiles` and `clips`: both models get whole photos, whose pixels are compared too. */
export interface CompareOptions extends PhotoOptions {
  /**
   * What to return from both models; undefined compares the graph outputs, and if B was cut out of A, the values of A that its outputs
   * are. Outputs with the same key belong together, or the only output of each.
   * @default undefined
   */
  readonly returnNodes: ReturnNodes | undefined;
  /**
   * Maximum number of images, an integer from 1 to 5000. Larger sources are sampled at random with a fixed seed.
   * @default 1000
   */
  readonly sample: number;
  /**
   * Neighbours for the recall, an integer from 1 to 100.
   * @default 10
   */
  readonly neighbours: number;
  /**
   * Where models run that are opened here.
   * @default 'cpu'
   */
  readonly device: Device;
  /**
   * Images per run, an integer from 1 to 4096; 0 chooses 8 on the CPU and 32 on a GPU.
   * @default 0
   */
  readonly batch: number;
  /**
   * HTML file to write, a page about the comparison. It may replace an older comparison, but no other file.
   * @default undefined
   */
  readonly out: string | undefined;
  /**
   * Stops the work when it fires. The call then rejects with its reason.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Called with the number of images compared so far.
   * @default undefined
   */
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

/** The distances of all pairs of so many images take 100 MB. */
const MOST_SAMPLE = 5000;

const WHOLE =
  'whole photos are compared, pixels too; embed the others with both models, and compare the vectors of the datasets';

export const COMPARE_FIELDS: Fields<CompareOptions> = {
  returnNodes: unchecked<ReturnNodes | undefined>(undefined),
  ...photoFields({ tiles: WHOLE, clips: WHOLE }),
  sample: integer(1, MOST_SAMPLE, 1000, 'maximum number of images, drawn at random'),
  neighbours: integer(1, 100, 10, 'neighbours for the recall'),
  device: DEVICE,
  batch: integer(0, 4096, 0, 'images per run; 0: 8 on the CPU, 32 on a GPU'),
  out: optional((option, value) => resolve(checkText(option, value)), 'also write an HTML page'),
  signal,
  onProgress: callback(),
};

/**
 * Compares two models on the same photos: is the quantised file still good, does the new export equal the old one?
 *
 * Each model gets its own pixels (`transform: 'auto'`). If the transforms differ, B is also fed with A's pixels, which tells
 * whether a difference comes from the pixels or from the model.
 *
 * @remarks Memory holds the vectors of the sample, and no more than a few batches of images. Maps are averaged over space before
 * their neighbours are compared.
 *
 * @param a - The reference: a path, bytes, an opened model, or an extractor, which stays open; or `{ model, returnNodes, transform }`,
 * where names or preprocessing differ from the other's.
 * @param b - The model to judge.
 * @param source - Photos: see {@link EmbedSource}.
 * @param given - See {@link CompareOptions}.
 * @returns The agreement of each output, and how the transforms differ.
 * @throws {@link TapirError} `OPTION_INVALID`, also if the models have no output in common; `SOURCE_INVALID`; `OUTPUT_EXISTS`;
 * errors of {@link createFeatureExtractor} and {@link embedImages}.
 *
 * @example
 * ```ts
 * import { compareModels } from 'onnx-tapir/precision';
 *
 * const { outputs } = await compareModels('clip.onnx', 'clip-int8.onnx', 'photos');
 * for (const { key, cosine, recall } of outputs) console.log(key, cosine?.mean, recall?.mean); // 'embeds' 0.998 0.94
 * ```
 */
export async function compareModels(
  a: ComparedSource,
  b: ComparedSource,
  source: EmbedSource,
  given: Options<CompareOptions> = {},
): Promise<ModelComparison> {
  const options = readOptions(COMPARE_FIELDS, given, 'compareModels');
  const { sample, signal, out } = options;
  if (out !== undefined) await checkReplaceable(out, 'compare');
  const [sideA, sideB] = [readSide('a', a, options), readSide('b', b, options)];
  await using sides = await openSides(sideA, sideB, options.device);
  const setups = setUpSides(sides, [sideA.transform, sideB.transform], options);
  const { items, seen } = await sampleSource(source, sample, undefined, signal);
  const [pixelsOfA, pixelsOfB] = [pixelsOf(sides.a, setups.a), pixelsOf(sides.b, setups.b)];
  const transforms = compareTransforms(pixelsOfA, pixelsOfB);
  const pixels = transforms.length > 0 ? await comparePixels(items, pixelsOfA, pixelsOfB) : null;
  const { outputs, failures } = await compareRows(sides, setups, items, options);
  const comparison: ModelComparison = {
    a: await describeModel(sides.a, setups.a),
    b: await describeModel(sides.b, setups.b),
    seen,
    sampled: items.length,
    failures,
    transforms,
    pixels,
    outputs,
  };
  if (out !== undefined) await writeAtomically(out, await renderComparison(comparison, items));
  return comparison;
}

/** How each model is fed. */
interface SideSetups {
  readonly a: EmbedSetup;
  readonly b: EmbedSetup;
  /** B with A's transform; undefined if B has the same one, or if it does not fit. */
  readonly bOnPixelsOfA: EmbedSetup | undefined;
}

function setUpSides(
  { a, b }: Sides,
  [transformA, transformB]: readonly [TransformRequest, TransformRequest],
  { batch, signal }: CompareOptions,
): SideSetups {
  const setUp = (extractor: Extractor, request: TransformRequest): EmbedSetup =>
    setUpEmbedding(extractor, { transform: request, batch, signal });
  const [setupA, setupB] = [setUp(a, transformA), setUp(b, transformB)];
  const setups = { a: setupA, b: setupB, bOnPixelsOfA: undefined };
  if (compareTransforms(pixelsOf(a, setupA), pixelsOf(b, setupB)).length === 0) return setups;
  try {
    return { ...setups, bOnPixelsOfA: setUp(b, setupA.transform) };
  } catch (error) {
    if (isTapirError(error, 'OPTION_INVALID')) return setups;
    throw error;
  }
}

/** The pixels that reach a model: its graph may compute them of photos. */
function pixelsOf({ model }: Extractor, { transform }: EmbedSetup): Transform {
  return statedTransform(model.source) ?? transform;
}

/** Runs all models in step, so that memory holds a few batches of each. */
async function compareRows(
  { a, b, keys }: Sides,
  setups: SideSetups,
  items: readonly SourceItem[],
  { neighbours, signal, onProgress }: CompareOptions,
): Promise<{ outputs: ComparedOutput[]; failures: ComparedFailure[] }> {
  let done = 0;
  const { bOnPixelsOfA } = setups;
  const named = await readClassLabels(a.model.source);
  const classes = 'labels' in named ? named.labels.length : undefined;
  const comparers = keys.map(([key, keyOfB]) => ({
    key,
    keyOfB,
    own: new OutputComparer(classes),
    onPixelsOfA: bOnPixelsOfA && new OutputComparer(classes),
  }));
  const failures: ComparedFailure[] = [];
  const [rowsA, rowsB] = [embedItems(a, items, setups.a), embedItems(b, items, setups.b)];
  const others = bOnPixelsOfA && embedItems(b, items, bOnPixelsOfA);
  try {
    for await (const ofA of rowsA) {
      const [ofB, other] = await Promise.all([nextOf(rowsB), others && nextOf(others)]);
      const { index, path } = ofA;
      onProgress?.({ done: ++done, total: items.length, unit: 'images', what: 'comparing' });
      const error = ofA.error ?? ofB.error ?? other?.error;
      if (error) failures.push({ path, error });
      if (!ofA.features || !ofB.features || error) continue;
      for (const { key, keyOfB, own, onPixelsOfA } of comparers) {
        own.add(index, path, ofA.features[key]!, ofB.features[keyOfB]!);
        if (other?.features) onPixelsOfA?.add(index, path, ofA.features[key]!, other.features[keyOfB]!);
      }
    }
  } finally {
    for (const rows of [rowsA, rowsB, others]) await rows?.return(undefined);
  }
  const breathe = createBreathe(signal);
  const outputs: ComparedOutput[] = [];
  for (const { key, own, onPixelsOfA } of comparers)
    outputs.push({
      key,
      ...(await own.finish(neighbours, breathe)),
      onPixelsOfA: onPixelsOfA ? await onPixelsOfA.finish(neighbours, breathe) : null,
    });
  return { outputs, failures };
}

async function nextOf(rows: AsyncGenerator<EmbeddedItem>): Promise<EmbeddedItem> {
  const next = await rows.next();
  // A defect: every item has a row.
  if (next.done === true) throw new Error('a model gave fewer rows than the other');
  return next.value;
}

async function describeModel(extractor: Extractor, setup: EmbedSetup): Promise<ComparedModel> {
  const { file, bytes, sha256 } = await identifyFile(extractor.model.source);
  const { device, engine } = extractor;
  const precision = describePrecision(extractor);
  const transform = recordTransform(pixelsOf(extractor, setup));
  return { file, bytes, sha256, device, engine, precision, transform };
}
