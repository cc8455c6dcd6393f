/** The fastest way to run a model here, of those that are near enough to float32 on photos. */
import { resolve } from 'node:path';
import { TRANSFORM_FIELDS } from '../../feeds/choose-transform.js';
import { checkText, type Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import {
  number,
  oneOf,
  optional,
  readOptions,
  signal,
  unchecked,
  type Field,
  type Fields,
} from '../../base/options.js';
import {
  EMBED_DEFAULTS,
  EMBED_FIELDS,
  ONE_ROW_FIELDS,
  setUpEmbedding,
  type EmbedOptions,
  type OneRowOptions,
} from '../../datasets/embed/embed-options.js';
import { readJournal } from '../../datasets/files/journal.js';
import type { EngineCandidate, EngineChoice } from '../../datasets/records/engine-choice.js';
import { leastCosine } from '../../datasets/records/float32-comparison.js';
import { SOURCE_FIELDS } from '../../feeds/items/source-options.js';
import type { EmbedSource } from '../../datasets/sources/open-source.js';
import { precisionOf, type PrunedModel } from '../../model/prune/pruned-model.js';
import {
  CAPABILITIES,
  checkPrecision,
  ENGINES,
  isLowered,
  PRECISIONS,
  type DeviceType,
  type EngineName,
  type Precision,
} from '../../runtime/capabilities/capabilities.js';
import { readDevice, type Device } from '../../runtime/lanes/device.js';
import { measureWays, openWay, readBatches, type Measured, type Way } from './measure-engines.js';

/** Options of {@link chooseEngine}. */
export interface ChooseEngineOptions
  extends Omit<OneRowOptions, 'keepDims' | 'checksum'>, Pick<EmbedOptions, 'clips'> {
  /**
   * The engine, or `auto` for any that is installed.
   * @default 'auto'
   */
  readonly engine: EngineName | 'auto';
  /**
   * The precision, or `auto` for any that can pay off on the device. Of a file in 8 bits, it is that of the rest.
   * @default 'auto'
   */
  readonly precision: Precision | 'auto';
  /**
   * Where to run.
   * @default 'cpu'
   */
  readonly device: Device;
  /**
   * The least cosine to float32 of any output of the first 16 photos, from 0 to 1. A file in 8 bits is compared with itself, the rest in
   * float32: what 8 bits cost was judged when it was made.
   * @default 0.998
   */
  readonly minCosine: number;
  /**
   * A dataset that the vectors go to. If it has some already, its engine and precision are taken, and nothing is measured.
   * @default undefined
   */
  readonly out: string | undefined;
}

export const MIN_COSINE: Field<number> = number(
  0,
  1,
  0.998,
  'with --engine auto or --precision auto: least cosine to float32 on the first 16 images',
);

const CHOICE_FIELDS: Fields<ChooseEngineOptions> = {
  ...SOURCE_FIELDS,
  ...TRANSFORM_FIELDS,
  batch: ONE_ROW_FIELDS.batch,
  decodeThreads: ONE_ROW_FIELDS.decodeThreads,
  clips: EMBED_FIELDS.clips,
  engine: oneOf([...ENGINES, 'auto'], 'auto'),
  precision: oneOf([...PRECISIONS, 'auto'], 'auto'),
  device: unchecked<Device>('cpu'),
  minCosine: MIN_COSINE,
  out: optional((option, value) => resolve(checkText(option, value))),
  signal,
};

/**
 * Chooses the engine and the precision that run a model fastest on a device, of those that are installed and whose vectors are near
 * enough to float32: every way runs the first photos, and is timed on a batch of them in turn with the others.
 *
 * @remarks Opens a session for each way, one beside the other, and closes them. Other work on the machine changes the figures, so give
 * `out` to continue a dataset with what it was begun with.
 * @param model - What {@link pruneModel} gives.
 * @param photos - As for {@link embedImages}; only the first are read. A stream that can be read once does not suit.
 * @param given - See {@link ChooseEngineOptions}.
 * @returns What to ask {@link createFeatureExtractor} for (`float16` is what {@link lowerPrecision} gives), and what was measured. Pass it
 * to {@link embedFolder} as `choice`, which records it.
 * @throws {@link TapirError} `PRECISION_TOO_LOW` if no way is near enough; `SOURCE_INVALID` if none of the photos can be read;
 * `OPTION_INVALID`; those of {@link createFeatureExtractor} for float32.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor, embedFolder, pruneModel } from 'onnx-tapir';
 * import { chooseEngine } from 'onnx-tapir/precision';
 *
 * const pruned = await pruneModel('resnet50.onnx', { avgpool: 'embedding' });
 * const choice = await chooseEngine(pruned, 'photos', { precision: 'auto', out: 'vectors' });
 * console.log(choice.engine, choice.precision); // openvino bfloat16
 * const precision = choice.precision === 'bfloat16' ? 'bfloat16' : 'float32';
 * const extractor = await createFeatureExtractor(pruned, undefined, { engine: choice.engine, precision });
 * await embedFolder(extractor, 'photos', { out: 'vectors', choice });
 * await extractor.close();
 * ```
 */
export async function chooseEngine(
  model: PrunedModel,
  photos: EmbedSource,
  given: Options<ChooseEngineOptions> = {},
): Promise<EngineChoice> {
  const options = readOptions(CHOICE_FIELDS, given, 'chooseEngine');
  const { type } = readDevice('device', options.device);
  const before = options.out === undefined ? undefined : await readChoice(model, options.out);
  if (before) return before;
  const ways = listWays(model, type, options);
  const [first] = ways;
  if (ways.length === 1 && first!.precision === 'float32')
    return { ...first!, candidates: [{ ...first!, ...UNMEASURED }], againstFloat32: null };
  const reference: Way = ways.find(({ precision }) => precision === 'float32') ?? {
    engine: ENGINES.find((engine) => CAPABILITIES[engine].precisions.float32.includes(type)) ?? ENGINES[0],
    precision: 'float32',
  };
  const { device } = options;
  await using exact = await openWay(model, reference, device);
  const setup = setUpEmbedding(exact, { ...EMBED_DEFAULTS, ...options });
  const batches = await readBatches(photos, exact, setup);
  return judge(await measureWays(model, ways, { exact, reference, setup, batches, device }), options);
}

/** The only way is not measured. */
const UNMEASURED = { imagesPerSecond: null, cosine: null, reason: null } as const;

/** What a dataset was begun with; undefined if it holds nothing. */
async function readChoice(model: PrunedModel, out: string): Promise<EngineChoice | undefined> {
  const journal = await readJournal(out);
  if (!journal || journal.shards.length === 0) return undefined;
  const { engine, precision, floatPrecision = 'float32' } = journal.identity;
  const isOfFile = precisionOf(model) === precision;
  // The run itself compares the dataset with what is opened.
  return {
    engine: engine as EngineName,
    precision: (isOfFile ? floatPrecision : precision) as Precision,
    candidates: [],
    againstFloat32: null,
  };
}

function listWays(
  model: PrunedModel,
  type: DeviceType,
  { engine, precision }: ChooseEngineOptions,
): readonly Way[] {
  const ways = (engine === 'auto' ? ENGINES : [engine]).flatMap((one) =>
    (precision === 'auto' ? PRECISIONS : [precision]).map((how): Way => ({ engine: one, precision: how })),
  );
  const isPossible = ({ engine: one, precision: how }: Way): boolean => {
    const { precisions } = CAPABILITIES[one];
    if (precisionOf(model) === how) return precision !== 'auto' && precisions.float32.includes(type);
    // Rewrites are for GPUs, or need photos to choose what is rewritten: docs/decisions/034, 040.
    if (precision === 'auto' && isLowered(how) && (how === 'int8' || type === 'cpu')) return false;
    return precisions[how]?.includes(type) === true;
  };
  const possible = ways.filter(isPossible);
  if (possible.length === 0)
    for (const way of ways) checkPrecision(way.precision, way.engine, { type, name: type });
  return possible;
}

function judge(measured: readonly Measured[], { minCosine }: ChooseEngineOptions): EngineChoice {
  const leastOf = ({ compared }: Measured): number => (compared && leastCosine(compared)?.least) ?? 0;
  const near = measured.filter((way) => way.imagesPerSecond !== null && leastOf(way) >= minCosine);
  const [best] = near.toSorted((a, b) => b.imagesPerSecond! - a.imagesPerSecond!);
  const candidates = measured.map((way): EngineCandidate => {
    const { engine, precision, imagesPerSecond, compared } = way;
    const reason =
      way === best ? null : (way.reason ?? (near.includes(way) ? 'slower' : 'too far from float32'));
    return { engine, precision, imagesPerSecond, cosine: compared ? leastOf(way) : null, reason };
  });
  if (best) {
    const { engine, precision, compared } = best;
    return { engine, precision, candidates, againstFloat32: precision === 'float32' ? null : compared! };
  }
  const worst = measured.find(({ compared }) => compared);
  const found = worst?.compared && leastCosine(worst.compared);
  throw new TapirError(
    'PRECISION_TOO_LOW',
    `no engine and precision that is possible here is near enough to float32 (minCosine ${minCosine}): ${candidates.map(describeCandidate).join('; ')}; choose precision "auto" or "float32", or a lower limit (--min-cosine)`,
    { details: { output: found?.key ?? '', cosine: found?.least ?? 0, minCosine } },
  );
}

/** `openvino bfloat16 98.1 images/s, cosine ≥ 0.9991`. */
export function describeCandidate({
  engine,
  precision,
  imagesPerSecond,
  cosine,
  reason,
}: EngineCandidate): string {
  const way = `${engine} ${precision}`;
  if (imagesPerSecond === null) return `${way} ${reason ?? 'is the only way'}`;
  // Rounded down, so that it is true.
  return `${way} ${imagesPerSecond.toFixed(1)} images/s, cosine ≥ ${Math.floor(cosine! * 1e4) / 1e4}`;
}
