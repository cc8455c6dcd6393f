/** What photos tell of a model: its pixels, a batch that is split, its vectors, and each engine and precision. */
import { isTapirError, reasonOf } from '../../base/errors.js';
import { pickFields } from '../../base/checks.js';
import { counted } from '../../base/printable.js';
import { embedItems } from '../../datasets/embed/embed-images.js';
import { EMBED_DEFAULTS, setUpEmbedding, type EmbedSetup } from '../../datasets/embed/embed-options.js';
import type { EngineCandidate } from '../../datasets/records/engine-choice.js';
import { fileOf, type SourceItem } from '../../photos/feeds/items/source-item.js';
import { SOURCE_DEFAULTS } from '../../photos/feeds/items/source-options.js';
import { openSource } from '../../datasets/sources/open-source.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import type { Extractor } from '../../extract/extractor.js';
import { textOf } from '../../base/html/facts.js';
import { formatValue } from '../../base/html/numbers.js';
import type { TransformChoice } from '../../photos/feeds/choose-transform.js';
import { loadImage } from '../../photos/feeds/load-image.js';
import { tensorsText } from '../../photos/images/transform/tensors-text.js';
import { precisionOf, type PrunedModel } from '../../run/model/prune/pruned-model.js';
import { OutputComparer } from '../../products/precision/compare/compare-outputs.js';
import { formatCosine } from '../../products/precision/compare/describe-comparison.js';
import { listForms } from '../../products/precision/lowering/forms.js';
import {
  asCandidate,
  measureForms,
  readFirstPhotos,
  type ExactModel,
  type PhotoBatch,
} from '../../products/precision/judge/measure-forms.js';
import type { Device } from '../../run/runtime/lanes/device.js';
import { compareTensors } from '../../onnx/tensor/compare-tensors.js';
import { compareVectors } from '../../onnx/tensor/compare-vectors.js';
import { makeTensor, type Tensor } from '../../onnx/tensor/tensor.js';
import { createBreathe } from '../../onnx/tensor/vectors/breathe.js';
import { widen } from '../../onnx/tensor/widen.js';
import { compared, judge, unproven, yes, type Finding } from './finding.js';
import type { PhotoVectors } from './photo-vectors.js';

/** What all others are compared with. */
export const FLOAT32 = { engine: 'onnxruntime', precision: 'float32' } as const;
/** Photos in the batch that is split. */
const SPLIT_ROWS = 4;
/** The least cosine of engines that compute in float32; sums in another order reach 0.999999. */
const LEAST_AGREEMENT = 0.9999;
/** Relative differences that sums in another order make. */
const ROUNDING = 1e-4;
/** Rounding of the normalisation, in the units of the model's input. */
const PIXEL_ROUNDING = 1e-5;
/** What stands behind the name of a photo for its pixels. */
const PIXELS = ':pixels';

export interface PhotoCheckOptions extends TransformChoice {
  /** The least cosine to the reference. */
  readonly minCosine: number;
  readonly signal: AbortSignal | undefined;
}

export interface PhotoCheck {
  readonly pixels: Finding;
  readonly split: Finding;
  readonly reference: Finding;
  /** Whether all engines give the same in float32. */
  readonly agree: Finding;
  /**
   * Each engine, device and precision that is here: images/s of the model alone, the least cosine to ONNX Runtime in float32, and the
   * reason if it does not run the model. Empty if the model takes no photos.
   */
  readonly engines: readonly EngineCandidate[];
}

/** A model that is checked. */
export interface OpenedModel {
  readonly pruned: PrunedModel;
  readonly exact: ExactModel;
  /** Where it is run. */
  readonly devices: readonly Device[];
}

/** Runs a model on photos. What is refused is a finding. */
export async function checkPhotos(
  { pruned, exact, devices }: OpenedModel,
  photos: string,
  reference: PhotoVectors | undefined,
  options: PhotoCheckOptions,
): Promise<PhotoCheck> {
  const { extractor } = exact;
  const { signal, minCosine, ...rest } = options;
  let setup: EmbedSetup | undefined;
  const fits = await judge(async () => {
    setup = setUpEmbedding(extractor, { ...pickFields(rest, EMBED_DEFAULTS), signal });
    return describePixels(setup);
  });
  if (!setup) return { pixels: fits, split: fits, reference: fits, agree: fits, engines: [] };
  const batches = await readFirstPhotos(photos, extractor, setup);
  const pixels = reference ? await judge(() => checkPixels(setup!, photos, reference)) : fits;
  const split = await judge(() => checkSplit(pruned, batches[0]!));
  const vectors = reference
    ? await judge(() => checkVectors(extractor, setup!, photos, reference, minCosine))
    : unproven('no reference was given (--against)');
  const forms = listForms(pruned, devices, { engine: 'auto', precision: 'auto' });
  const described = await measureForms(pruned, forms, exact, batches, signal).then(
    (found) => found.map(({ candidate }) => candidate),
    (error: unknown) => {
      if (!isTapirError(error)) throw error;
      return [asCandidate(exact.form, reasonOf(error))];
    },
  );
  const agree = precisionOf(pruned)
    ? unproven('engines round a file of lower precision in their own ways')
    : checkEngines(described);
  return { pixels, split, reference: vectors, agree, engines: described };
}

/** All engines give the same vectors in float32. */
export function checkEngines(engines: readonly EngineCandidate[]): Finding {
  const others = engines.filter(
    ({ engine, precision, cosine }) =>
      precision === 'float32' && engine !== FLOAT32.engine && cosine !== null,
  );
  if (others.length === 0) return unproven('no second engine runs it in float32');
  const says = others.map(({ engine, cosine }) => `${engine}, float32: cosine ≥ ${formatCosine(cosine!)}`);
  const isWrong = others.some(({ cosine }) => !(cosine! >= LEAST_AGREEMENT));
  return { verdict: isWrong ? 'no' : 'yes', says: `${says.join('; ')} to ${FLOAT32.engine}` };
}

/** Where the preprocessing comes from; only a reference proves it. */
function describePixels({ transform }: EmbedSetup): Finding {
  const { source, assumed, options } = transform;
  const found = source
    ? `${source.kind}${source.file === null ? '' : `, ${source.file}`}`
    : assumed
      ? 'assumed: ImageNet1K_V1, as no configuration lies beside the model'
      : 'as stated';
  const steps =
    tensorsText(transform) ?? `resize ${textOf(options.resize)}, crop ${textOf(options.crop) || 'none'}`;
  return unproven(`${found}: ${steps}`);
}

/** The pixels of photos are those of the reference. */
async function checkPixels(setup: EmbedSetup, photos: string, reference: PhotoVectors): Promise<Finding> {
  const { says } = describePixels(setup);
  const transform = setup.transform.with({ layout: 'nchw' });
  let images = 0;
  let most = 0;
  for await (const { path, image } of photosOf(photos, (name) => reference.has(name + PIXELS), setup)) {
    const { data } = (await loadImage(await fileOf({ image }), transform)).toTensor();
    const expected = reference.get(path! + PIXELS)!.data;
    const isAlike = expected.length === data.length && data instanceof Float32Array;
    most = Math.max(most, isAlike ? compareVectors(data, expected).maxDifference : Infinity);
    images++;
  }
  const known = [...reference.keys()].filter((name) => name.endsWith(PIXELS)).length;
  if (known === 0) return unproven(says);
  if (images < known)
    return { verdict: 'no', says: `${counted(known - images, 'photo')} of the reference are not here` };
  return compared(`${says}; ${counted(images, 'photo')}`, most === 0, most, PIXEL_ROUNDING, '');
}

/** Photos that a reference knows. */
async function* photosOf(
  photos: string,
  isKnown: (name: string) => boolean,
  { signal }: EmbedSetup,
): AsyncGenerator<SourceItem> {
  for await (const item of openSource(photos, SOURCE_DEFAULTS, signal))
    if (item.path !== null && isKnown(item.path)) yield item;
}

/** A batch that is split over two lanes gives the rows of one run. */
async function checkSplit(pruned: PrunedModel, batch: PhotoBatch): Promise<Finding> {
  const photos = Math.min(SPLIT_ROWS, batch.rows);
  if (photos < 2) return unproven('it takes two photos');
  const feeds = batch.feeds(photos);
  const how = { ...FLOAT32, session: { graphOptimizationLevel: 'disabled' }, outputDtype: 'keep' } as const;
  const [first, second] = [0, 1].map((id) => ({ type: 'cpu', id, threads: 1 }) as const);
  await using one = await createFeatureExtractor(pruned, undefined, { ...how, device: first! });
  await using two = await createFeatureExtractor(pruned, undefined, { ...how, devices: [first!, second!] });
  const [expected, actual] = [await one.run(feeds), await two.run(feeds)];
  const found = one.outputs.map(({ name }) => compareTensors(actual[name]!, expected[name]!));
  const most = Math.max(...found.map(({ maxRelative }) => maxRelative));
  const what = `${counted(photos, 'photo')} on 2 lanes, against one run`;
  return compared(
    what,
    found.every(({ isEqual }) => isEqual),
    most,
    ROUNDING,
  );
}

/** The length of a vector, which its cosine does not tell. */
function lengthOf(tensor: Tensor): number {
  const { dtype, data } = tensor;
  if (Array.isArray(data)) return Number.NaN;
  return Math.sqrt(widen(dtype, data.slice().buffer as ArrayBuffer).reduce((sum, x) => sum + x * x, 0));
}

function fartherFrom1(a: number, b: number): number {
  return Math.abs(b - 1) > Math.abs(a - 1) ? b : a;
}

/**
 * The vectors of photos are those of the reference, and it knows no photo that is missing. Lengths may differ by as much as vectors of
 * the least cosine are apart.
 */
async function checkVectors(
  exact: Extractor,
  setup: EmbedSetup,
  photos: string,
  reference: PhotoVectors,
  minCosine: number,
): Promise<Finding> {
  const keys = exact.outputs.map(({ name }) => name);
  const left = new Set([...reference.keys()].filter((name) => !name.endsWith(PIXELS)));
  if (left.size === 0 && reference.size > 0) return unproven('the reference holds pixels only');
  const entryOf = (photo: string, key: string): string =>
    keys.length === 1 && reference.has(photo) ? photo : `${photo}:${key}`;
  const items = photosOf(photos, (name) => keys.some((key) => left.has(entryOf(name, key))), setup);
  const comparers = new Map(keys.map((key) => [key, new OutputComparer()]));
  const lengths = new Map(keys.map((key) => [key, 1]));
  let compares = 0;
  /** What kept an output from being compared. */
  const unlike = new Map<string, string>();
  const problems: string[] = [];
  const found: string[] = [];
  for await (const { index, path, features, error } of embedItems(exact, items, setup)) {
    if (error) problems.push(`${path}: ${error.message}`);
    for (const [key, comparer] of comparers) {
      const entry = entryOf(path!, key);
      const expected = left.delete(entry) ? reference.get(entry) : undefined;
      if (!expected || !features) continue;
      const vector = makeTensor('float32', expected.dims, expected.data);
      comparer.add(index, path, vector, features[key]!);
      compares++;
      const [here, there] = [features[key]!.data.length, vector.data.length];
      if (here !== there) unlike.set(key, `${here} numbers here, ${there} in the reference`);
      lengths.set(key, fartherFrom1(lengths.get(key)!, lengthOf(features[key]!) / lengthOf(vector)));
    }
  }
  const otherOutput = compares > 0 ? undefined : nameOutputs(reference, exact);
  if (otherOutput !== undefined) return { verdict: 'no', says: otherOutput };
  if (left.size > 0) problems.push(describeAbsent(left, keys));
  const breathe = createBreathe(setup.signal);
  for (const [key, comparer] of comparers) {
    // Without neighbours: a reference may have two photos.
    const { images, identical, notFinite, cosine, worst } = await comparer.finish(Infinity, breathe);
    if (notFinite > 0) problems.push(`${key}: NaN or infinity in ${counted(notFinite, 'photo')}`);
    else if (!cosine) problems.push(`${key}: ${unlike.get(key) ?? 'no photo of the reference is here'}`);
    else {
      const says = `${key}: cosine ≥ ${formatCosine(cosine.least)} over ${counted(images, 'photo')} (${worst[0]!.path}), ${identical} with the same numbers`;
      const length = lengths.get(key)!;
      if (cosine.least < minCosine) problems.push(`${says}; at least ${minCosine} is asked`);
      else if (Math.abs(length - 1) > Math.sqrt(2 * (1 - minCosine)) + ROUNDING)
        problems.push(
          `${says}, but a vector is ${formatValue(length)} times as long as that of the reference; normalise both or neither`,
        );
      else found.push(says);
    }
  }
  // What holds is said beside what does not.
  const says = [...problems, ...found].join('; ');
  return problems.length > 0 ? { verdict: 'no', says } : yes(says);
}

const MOST_MISSING = 3;

/** The photos of entries of the reference that no photo here belongs to. */
function describeAbsent(left: ReadonlySet<string>, keys: readonly string[]): string {
  const names = new Set(
    Array.from(left, (entry) => {
      const key = keys.find((one) => entry.endsWith(`:${one}`));
      return key === undefined ? entry : entry.slice(0, -key.length - 1);
    }),
  );
  const some = [...names].slice(0, MOST_MISSING).join(', ');
  const are = names.size === 1 ? 'is' : 'are';
  return `${counted(names.size, 'photo')} of the reference ${are} not here: ${some}${names.size > MOST_MISSING ? ', …' : ''}`;
}

/** What to ask for, if the reference has vectors of other outputs only. */
function nameOutputs(reference: PhotoVectors, { outputs }: Extractor): string | undefined {
  const held = new Map<string, number>();
  for (const [name, { data }] of reference) {
    const key = /^.+:([^:/\\]+)$/.exec(name)?.[1];
    // A photo whose own name has a colon.
    if (key === undefined) return undefined;
    if (key !== 'pixels') held.set(key, data.length);
  }
  if (held.size === 0 || outputs.some(({ name }) => held.has(name))) return undefined;
  const theirs = [...held].map(([key, length]) => `"${key}" (${length} numbers)`).join(', ');
  const ours = outputs.map(({ name, dims }) => `"${name}" [${dims?.join(', ') ?? '?'}]`).join(', ');
  const flags = [...held.keys()].map((key) => `--return NODE=${key}`).join(' ');
  return `the reference holds ${theirs}, and this run gives ${ours}; name the node that the reference was made with: ${flags}`;
}
