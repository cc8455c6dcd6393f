/** The fastest way to run a model here, of those that are near enough to float32 on photos. */
import { resolve } from 'node:path';
import { EMBED_FIELDS } from '../../toolkit.js';
import { checkText, number, oneOf, optional, readOptions, signal, unchecked, type Field, type Fields } from '../../base/index.js';
import { TapirError, type Device, type EmbedOptions, type EmbedSource, type EngineName, type Options, type Precision, type PrunedModel } from '../../index.js';
import { TRANSFORM_FIELDS } from '../../feeds/choose-transform.js';
import { EMBED_DEFAULTS, ONE_ROW_FIELDS, setUpEmbedding, type OneRowOptions } from '../../datasets/embed/embed-options.js';
import { readJournal } from '../../datasets/files/journal.js';
import type { EngineCandidate, EngineChoice } from '../../datasets/records/engine-choice.js';
import { leastCosine } from '../../datasets/records/float32-comparison.js';
import { SOURCE_FIELDS } from '../../feeds/items/source-options.js';
import { precisionOf } from '../../model/prune/pruned-model.js';
import { CAPABILITIES, checkPrecision, ENGINES, PRECISIONS } from '../../runtime/capabilities/capabilities.js';
import { deviceName, readDevice } from '../../runtime/lanes/device.js';
import { openForm } from './judge-forms.js';
import {
  asCandidate,
  askedDevices,
  listForms,
  measureForms,
  openModelForm,
  readBatches,
  type MeasuredForm,
  type ModelForm,
} from './model-forms.js';

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
   * Where to run; `auto` for any device that works here: the CPU, the first GPU of each kind, and installed plugins.
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
  const before = options.out === undefined ? undefined : await readChoice(model, options.out, options.device);
  if (before) return before;
  const devices = await askedDevices(options.device, options.signal);
  const forms = listChosen(model, devices, options);
  const [first] = forms;
  if (forms.length === 1 && first!.precision === 'float32')
    return { ...first!, candidates: [asCandidate(first!, null)], againstFloat32: null };
  const device = devices[0]!;
  const { type } = readDevice('device', device);
  const exact = forms.find(({ precision }) => precision === 'float32') ?? {
    engine: ENGINES.find((engine) => CAPABILITIES[engine].precisions.float32.includes(type)) ?? ENGINES[0],
    precision: 'float32',
    device,
  };
  const { extractor, bytes } = await openForm(() => openModelForm(model, exact));
  await using _ = extractor;
  const setup = setUpEmbedding(extractor, { ...EMBED_DEFAULTS, ...options });
  const batches = await readBatches(photos, extractor, setup);
  const reference = { form: exact, extractor, bytes };
  return choose(await measureForms(model, forms, reference, batches, setup), options);
}

/** What a dataset was begun with; undefined if it holds nothing. The run itself compares the dataset with what is opened. */
async function readChoice(
  model: PrunedModel,
  out: string,
  device: Device,
): Promise<EngineChoice | undefined> {
  const journal = await readJournal(out);
  if (!journal || journal.shards.length === 0) return undefined;
  const { engine, precision, floatPrecision = 'float32' } = journal.identity;
  const isOfFile = precisionOf(model) === precision;
  // Several devices are written with commas.
  const last = journal.runs.at(-1)?.device.split(',')[0] ?? 'cpu';
  return {
    engine: engine as EngineName,
    precision: (isOfFile ? floatPrecision : precision) as Precision,
    device: readDevice('device', device).type === 'auto' ? (last as Device) : device,
    candidates: [],
    againstFloat32: null,
  };
}

/** The forms that may be taken. What 8 bits cost is judged on photos when a file is made: docs/decisions/040. */
function listChosen(
  model: PrunedModel,
  devices: readonly Device[],
  asked: ChooseEngineOptions,
): readonly ModelForm[] {
  const { engine, precision } = asked;
  const forms = listForms(model, devices, asked).filter(
    (form) => precision !== 'auto' || form.precision !== 'int8',
  );
  if (forms.length > 0) return forms;
  const resolved = readDevice('device', devices[0]);
  for (const one of engine === 'auto' ? ENGINES : [engine])
    for (const how of precision === 'auto' ? PRECISIONS : [precision])
      checkPrecision(how, one, { type: resolved.type, name: deviceName(resolved) });
  return forms;
}

function choose(measured: readonly MeasuredForm[], { minCosine }: ChooseEngineOptions): EngineChoice {
  const near = measured.filter(
    ({ candidate }) => candidate.imagesPerSecond !== null && candidate.cosine! >= minCosine,
  );
  const [best] = near.toSorted((a, b) => b.candidate.imagesPerSecond! - a.candidate.imagesPerSecond!);
  const candidates = measured.map(({ candidate }, k): EngineCandidate => {
    if (measured[k] === best) return candidate;
    const isNear = near.includes(measured[k]!);
    return { ...candidate, reason: candidate.reason ?? (isNear ? 'slower' : 'too far from float32') };
  });
  if (best) {
    const { form, compared } = best;
    return { ...form, candidates, againstFloat32: form.precision === 'float32' ? null : compared! };
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
function describeCandidate({
  engine,
  device,
  precision,
  imagesPerSecond,
  cosine,
  reason,
}: EngineCandidate): string {
  const way = `${engine} ${precision}${device === 'cpu' ? '' : ` on ${device}`}`;
  if (imagesPerSecond === null) return `${way} ${reason}`;
  // Rounded down, so that it is true.
  return `${way} ${imagesPerSecond.toFixed(1)} images/s, cosine ≥ ${Math.floor(cosine! * 1e4) / 1e4}`;
}
