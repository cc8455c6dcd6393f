/** What holds of a model on this machine: names, pixels, cuts, splits, and the vectors and the speed of each engine and precision. */
import { checkText } from '../../base/checks.js';
import { isTapirError, reasonOf, type ErrorCode } from '../../base/errors.js';
import { number, optional, signal, unchecked, type Fields } from '../../base/options.js';
import { counted } from '../../base/printable.js';
import { embedBatches, openDecodeLanes } from '../../datasets/embed/embed-batches.js';
import { rowsOf } from '../../datasets/embed/embed-images.js';
import {
  EMBED_DEFAULTS,
  EMBED_FIELDS,
  setUpEmbedding,
  type EmbedSetup,
} from '../../datasets/embed/embed-options.js';
import { readPhotoVectors, type PhotoVectors } from '../../datasets/files/photo-vectors.js';
import type { EngineCandidate } from '../../datasets/records/engine-choice.js';
import { leastCosine } from '../../datasets/records/float32-comparison.js';
import type { SourceItem } from '../../datasets/sources/items/source-item.js';
import { SOURCE_DEFAULTS } from '../../datasets/sources/items/source-options.js';
import { openSource } from '../../datasets/sources/open-source.js';
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import type { Extractor } from '../../extract/extractor.js';
import { nameValues } from '../../graph/names/name-list.js';
import { resolveNames } from '../../graph/names/resolve-names.js';
import type { TransformRequest } from '../../images/configs/find-transform.js';
import { loadImage } from '../../images/transform/load-image.js';
import { modelInternals } from '../../model/open/model-state.js';
import { getGraphNodeNames, openModel, type OnnxModel } from '../../model/open/open-model.js';
import type { ReturnNodes } from '../../model/open/return-nodes.js';
import { pruneModel } from '../../model/oracle/prune-model.js';
import { verifyModel } from '../../model/oracle/verify.js';
import { identifyFile, type FileIdentity } from '../../model/prune/identify-model.js';
import { precisionOf, type PrunedModel } from '../../model/prune/pruned-model.js';
import { OutputComparer } from '../../precision/compare/compare-outputs.js';
import { formatCosine } from '../../precision/compare/describe-comparison.js';
import {
  measureWays,
  openWay,
  readBatches,
  type Measured,
  type PhotoBatch,
  type Way,
} from '../../precision/engines/measure-engines.js';
import {
  CAPABILITIES,
  ENGINES,
  isLowered,
  PRECISIONS,
  type DeviceType,
} from '../../runtime/capabilities/capabilities.js';
import { DEVICE, readDevice, type Device } from '../../runtime/lanes/device.js';
import { compareTensors } from '../../tensor/compare-tensors.js';
import { compareVectors } from '../../tensor/compare-vectors.js';
import { fillFeed } from '../../tensor/image-feed.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';
import { makeTensor } from '../../tensor/tensor.js';
import { createBreathe } from '../../tensor/vectors/breathe.js';

/** Whether something holds: bit for bit, within rounding, or not; it can also be refused with an error, or not be provable here. */
export type Verdict = 'yes' | 'close' | 'no' | 'refused' | 'unproven';

/** What was found out about one property. */
export interface Finding {
  readonly verdict: Verdict;
  /** The reason, in words. */
  readonly says: string;
  /** The code of the error, if it is refused. */
  readonly code?: ErrorCode;
}

/** What {@link checkModel} found. */
export interface ModelCheck {
  readonly model: FileIdentity & { readonly producer: string };
  /** In the order of the table. */
  readonly findings: Readonly<Record<'opens' | 'names' | 'pixels' | 'cut' | 'split' | 'reference', Finding>>;
  /**
   * Each engine and precision that is installed: images/s of the model alone, the least cosine to ONNX Runtime in float32, and the
   * reason if it does not run the model. Empty if the model takes no photos.
   */
  readonly engines: readonly EngineCandidate[];
}

/** Options of {@link checkModel}. */
export interface CheckModelOptions {
  /** What to return; undefined for the graph outputs. */
  readonly returnNodes: ReturnNodes | undefined;
  readonly transform: TransformRequest;
  readonly device: Device;
  /** An `.npz` file, or a dataset, with the vectors of photos. */
  readonly against: string | undefined;
  /** The least cosine to the reference. */
  readonly minCosine: number;
  readonly signal: AbortSignal | undefined;
}

export const CHECK_FIELDS: Fields<CheckModelOptions> = {
  returnNodes: unchecked<ReturnNodes | undefined>(undefined),
  transform: EMBED_FIELDS.transform,
  device: DEVICE,
  against: optional(checkText, 'vectors that must come out: an .npz file by photo name, or a dataset'),
  minCosine: number(0, 1, 0.9999, 'with --against: the least cosine that passes'),
  signal,
};

/** What all others are compared with. */
const FLOAT32: Way = { engine: 'onnxruntime', precision: 'float32' };
/** Features that the model is cut at, as shares of its names. */
const CUTS_AT = [0.25, 0.5, 0.75];
/** Photos in the batch that is split. */
const SPLIT_ROWS = 4;
/** Relative differences that sums in another order make. */
const ROUNDING = 1e-4;
/** Rounding of the normalisation, in the units of the model's input. */
const PIXEL_ROUNDING = 1e-5;
/** What stands behind the name of a photo for its pixels. */
const PIXELS = ':pixels';

/**
 * Checks a model on photos: what can be asked of it, and whether its numbers are right.
 *
 * @throws {@link TapirError} those of {@link openModel}; `DATASET_INVALID` for a reference that cannot be read; `SOURCE_INVALID`;
 * errors of the engines that concern the model. All else is a finding.
 */
export async function checkModel(
  path: string,
  photos: string,
  options: CheckModelOptions,
): Promise<ModelCheck> {
  const { against, device, returnNodes } = options;
  const reference = against === undefined ? undefined : await readPhotoVectors(against);
  const model = await openModel(path);
  let opened: { readonly pruned: PrunedModel; readonly exact: Extractor } | undefined;
  const opens = await judge(async () => {
    const outputs = model.outputs.map(({ name }): [string, string] => [`tensor:${name}`, name]);
    const pruned = await pruneModel(model, returnNodes ?? outputs);
    const exact = await openWay(pruned, FLOAT32, device);
    opened = { pruned, exact };
    return yes(`${shapesOf(exact.inputs)} → ${shapesOf(exact.outputs)}`);
  });
  await using _closed = opened?.exact;
  const checked = opened ? await checkPhotos(opened, photos, reference, options) : undefined;
  return {
    model: { ...(await identifyFile(model)), producer: model.producer },
    findings: {
      opens,
      names: checkNames(model),
      cut: await judge(() => checkCut(model)),
      ...(checked?.findings ?? { pixels: opens, split: opens, reference: opens }),
    },
    engines: checked?.engines ?? [],
  };
}

/** What photos tell. */
async function checkPhotos(
  { pruned, exact }: { readonly pruned: PrunedModel; readonly exact: Extractor },
  photos: string,
  reference: PhotoVectors | undefined,
  options: CheckModelOptions,
): Promise<
  Pick<ModelCheck, 'engines'> & {
    readonly findings: Pick<ModelCheck['findings'], 'pixels' | 'split' | 'reference'>;
  }
> {
  const { transform, device, signal, minCosine } = options;
  let setup: EmbedSetup | undefined;
  const fits = await judge(async () => {
    setup = setUpEmbedding(exact, { ...EMBED_DEFAULTS, transform, signal });
    return describePixels(setup);
  });
  if (!setup) return { findings: { pixels: fits, split: fits, reference: fits }, engines: [] };
  const batches = await readBatches(photos, exact, setup);
  const pixels = reference ? await judge(() => checkPixels(setup!, photos, reference)) : fits;
  const split = await judge(() => checkSplit(pruned, setup!, batches[0]!));
  const vectors = reference
    ? await judge(() => checkVectors(exact, setup!, photos, reference, minCosine))
    : unproven('no reference was given (--against)');
  const ways = listWays(pruned, readDevice('--device', device).type);
  const measuring = { exact, reference: FLOAT32, setup, batches, device };
  const engines = await measureWays(pruned, ways, measuring).catch((error: unknown) => {
    if (!isTapirError(error)) throw error;
    return [{ ...FLOAT32, imagesPerSecond: null, compared: undefined, reason: reasonOf(error) }];
  });
  return { findings: { pixels, split, reference: vectors }, engines: engines.map(describeWay) };
}

function describeWay({ compared, ...way }: Measured): EngineCandidate {
  return { ...way, cosine: (compared && leastCosine(compared)?.least) ?? null };
}

/** Each way that may run the model on a device. Float16 on the CPU is float32 with conversions: docs/decisions/034. */
function listWays(pruned: PrunedModel, type: DeviceType): Way[] {
  return ENGINES.flatMap((engine) =>
    PRECISIONS.filter((precision) => {
      if (isLowered(precision) && (precisionOf(pruned) || (precision === 'float16' && type === 'cpu')))
        return false;
      return CAPABILITIES[engine].precisions[precision]?.includes(type);
    }).map((precision): Way => ({ engine, precision })),
  );
}

function yes(says: string): Finding {
  return { verdict: 'yes', says };
}

function unproven(says: string): Finding {
  return { verdict: 'unproven', says };
}

/** A refusal is a finding. */
async function judge(check: () => Promise<Finding>): Promise<Finding> {
  try {
    return await check();
  } catch (error) {
    if (!isTapirError(error)) throw error;
    return { verdict: 'refused', says: error.message, code: error.code };
  }
}

function shapesOf(values: readonly Pick<TensorInfo, 'name' | 'dims'>[]): string {
  return values.map(({ name, dims }) => `${name} [${dims?.join(', ') ?? '?'}]`).join(', ');
}

/** Each name that is listed denotes the value that it is listed for. */
function checkNames(model: OnnxModel): Finding {
  const { graph } = modelInternals.of(model);
  const named = [...nameValues(graph)];
  const wrong = named.filter(([value, name]) => resolveNames(graph, [name])[0]!.value !== value);
  if (wrong.length > 0)
    return { verdict: 'no', says: `other values: ${wrong.map(([, name]) => name).join(', ')}` };
  const modules = new Set(model.nodes.flatMap(({ module }) => module ?? [])).size;
  const inner = model.nodes.filter(({ role, request }) => role === 'data' && request === null).length;
  return yes(
    `${named.length} names, ${modules || 'no'} modules${inner > 0 ? `, ${counted(inner, 'node')} inside them without a name` : ''}`,
  );
}

/** Features of the model, cut, are those of the whole graph. */
async function checkCut(model: OnnxModel): Promise<Finding> {
  const names = getGraphNodeNames(model).slice(model.inputs.length);
  if (names.length === 0) return unproven('no node has a name');
  const features = [...new Set(CUTS_AT.map((share) => names[Math.floor(share * names.length)]!))];
  const { isEqual, maxRelative, tolerance } = await verifyModel(await pruneModel(model, features));
  return compared(`${features.join(', ')}, against the whole graph`, isEqual, maxRelative, tolerance);
}

function compared(what: string, isEqual: boolean, maxRelative: number, tolerance: number): Finding {
  const verdict = isEqual ? 'yes' : maxRelative <= tolerance ? 'close' : 'no';
  return {
    verdict,
    says: `${what}: ${isEqual ? 'the same bits' : `off by ${maxRelative.toExponential(1)} of the largest value`}`,
  };
}

/** Where the preprocessing comes from; only a reference proves it. */
function describePixels({ transform }: EmbedSetup): Finding {
  const { source, assumed, options } = transform;
  const found = source
    ? `${source.kind}${source.file === null ? '' : `, ${source.file}`}`
    : assumed
      ? 'assumed: ImageNet1K_V1, as no configuration lies beside the model'
      : 'as stated';
  return unproven(`${found}: resize ${JSON.stringify(options.resize)}, crop ${JSON.stringify(options.crop)}`);
}

/** The pixels of photos are those of the reference. */
async function checkPixels(setup: EmbedSetup, photos: string, reference: PhotoVectors): Promise<Finding> {
  const { says } = describePixels(setup);
  const transform = setup.transform.with({ layout: 'nchw' });
  let images = 0;
  let most = 0;
  for await (const { path, image } of photosOf(photos, (name) => reference.has(name + PIXELS), setup)) {
    const { data } = (
      await loadImage(typeof image === 'function' ? await image() : image, transform)
    ).toTensor();
    const expected = reference.get(path! + PIXELS)!.data;
    const isAlike = expected.length === data.length && data instanceof Float32Array;
    most = Math.max(most, isAlike ? compareVectors(data, expected).maxDifference : Infinity);
    images++;
  }
  const known = [...reference.keys()].filter((name) => name.endsWith(PIXELS)).length;
  if (known === 0) return unproven(says);
  if (images < known)
    return { verdict: 'no', says: `${counted(known - images, 'photo')} of the reference are not here` };
  return compared(`${says}; ${counted(images, 'photo')}`, most === 0, most, PIXEL_ROUNDING);
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
async function checkSplit(pruned: PrunedModel, setup: EmbedSetup, batch: PhotoBatch): Promise<Finding> {
  const images = batch.images.slice(0, SPLIT_ROWS);
  if (images.length < 2) return unproven('it takes two photos');
  const { axes, feed, multiple } = setup.input;
  const rows = multiple === null ? images.length : Math.ceil(images.length / multiple) * multiple;
  const tensor = fillFeed({ ...feed, dims: [rows, ...axes], pixels: batch.pixels, images });
  const session = { graphOptimizationLevel: 'disabled' } as const;
  const [first, second] = [0, 1].map((id) => ({ type: 'cpu', id, threads: 1 }) as const);
  await using one = await createFeatureExtractor(pruned, undefined, { device: first!, session });
  await using two = await createFeatureExtractor(pruned, undefined, { devices: [first!, second!], session });
  const [expected, actual] = [await one.run(tensor), await two.run(tensor)];
  const found = one.outputs.map(({ name }) => compareTensors(actual[name]!, expected[name]!));
  const most = Math.max(...found.map(({ maxRelative }) => maxRelative));
  const what = `${counted(images.length, 'photo')} on 2 lanes, against one run`;
  return compared(
    what,
    found.every(({ isEqual }) => isEqual),
    most,
    ROUNDING,
  );
}

/** The vectors of photos are those of the reference, and it knows no photo that is missing. */
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
  const problems: string[] = [];
  const found: string[] = [];
  await using lanes = openDecodeLanes(exact, setup);
  for await (const batch of embedBatches(exact, items, setup, lanes))
    for (const { index, path, features, error } of rowsOf(batch)) {
      if (error) problems.push(`${path}: ${error.message}`);
      for (const [key, comparer] of comparers) {
        const entry = entryOf(path!, key);
        const expected = left.delete(entry) ? reference.get(entry) : undefined;
        if (expected && features)
          comparer.add(index, path, makeTensor('float32', expected.dims, expected.data), features[key]!);
      }
    }
  if (left.size > 0)
    problems.push(`nothing here is ${[...left].slice(0, 3).join(', ')}${left.size > 3 ? ', …' : ''}`);
  const breathe = createBreathe(setup.signal);
  for (const [key, comparer] of comparers) {
    // Without neighbours: a reference may have two photos.
    const { images, identical, notFinite, cosine, worst } = await comparer.finish(Infinity, breathe);
    if (!cosine || notFinite > 0) problems.push(`${key}: other lengths, NaN, or no photo`);
    else {
      const says = `${key}: cosine ≥ ${formatCosine(cosine.least)} over ${counted(images, 'photo')} (${worst[0]!.path}), ${identical} with the same numbers`;
      if (cosine.least < minCosine) problems.push(`${says}; at least ${minCosine} is asked`);
      else found.push(says);
    }
  }
  return problems.length > 0 ? { verdict: 'no', says: problems.join('; ') } : yes(found.join('; '));
}
