/** The fastest way to run a model here, of those that are near enough to float32 on photos. */
import { resolve } from 'node:path';
import { ONE_ROW_FIELDS, setUpEmbedding, type OneRowOptions } from '../../../datasets/embed/embed-options.js';
import { leastCosine } from '../../../datasets/records/float32-comparison.js';
import { readBegunChoice } from '../../../datasets/files/begun-choice.js';
import type { EngineCandidate, EngineChoice } from '../../../datasets/records/engine-choice.js';
import {
  askedDevices,
  exactForm,
  FORM_FIELDS,
  listForms,
  openModelForm,
  refuseForms,
  type ModelForm,
} from '../lowering/forms.js';
import { checkText, type Options } from '../../../base/checks.js';
import { number, optional, readOptions, unchecked, type Field, type Fields } from '../../../base/options.js';
import { TapirError } from '../../../base/errors.js';
import { photoFields, type PhotoOptions } from '../../../photos/feeds/photo-options.js';
import type { Device } from '../../../run/runtime/lanes/device.js';
import type { EmbedSource } from '../../../datasets/sources/open-source.js';
import type { EngineName, Precision } from '../../../run/runtime/capabilities/capabilities.js';
import type { PrunedModel } from '../../../run/model/prune/pruned-model.js';
import { openForm } from './judge-forms.js';
import { asCandidate, measureForms, readFirstPhotos, type MeasuredForm } from './measure-forms.js';

/** Options of {@link chooseEngine}. It refuses `tiles`: a tile takes the model as long as a photo. */
export interface ChooseEngineOptions extends Omit<OneRowOptions, 'keepDims' | 'checksum'>, PhotoOptions {
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
  'with --save: least cosine to float32 on the first 16 images',
);

const { keepDims: _, checksum: __, ...READING_FIELDS } = ONE_ROW_FIELDS;

export const CHOICE_FIELDS: Fields<ChooseEngineOptions> = {
  ...photoFields({ tiles: 'a tile takes the model as long as a photo, so photos tell' }),
  ...READING_FIELDS,
  ...FORM_FIELDS,
  device: unchecked<Device>('cpu'),
  minCosine: MIN_COSINE,
  out: optional((option, value) => resolve(checkText(option, value))),
};

/**
 * Chooses the engine and the precision that run a model fastest on a device, of those that are installed and whose vectors are near enough
 * to float32. Every way runs the first photos. All are timed on a batch of them, in turns.
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
  const before =
    options.out === undefined ? undefined : await readBegunChoice(model, options.out, options.device);
  if (before) return before;
  const devices = await askedDevices(options.device, options.signal);
  const forms = listChosen(model, devices, options);
  const [first] = forms;
  if (forms.length === 1 && first!.precision === 'float32')
    return { ...first!, candidates: [asCandidate(first!, null)], againstFloat32: null };
  const exact = forms.find(({ precision }) => precision === 'float32') ?? exactForm(devices[0]!);
  const { extractor, bytes } = await openForm(() => openModelForm(model, exact));
  await using _ = extractor;
  const setup = setUpEmbedding(extractor, options);
  const batches = await readFirstPhotos(photos, extractor, setup);
  const reference = { form: exact, extractor, bytes };
  return choose(await measureForms(model, forms, reference, batches, options.signal), options);
}

/** The forms that may be taken. What 8 bits cost is judged on photos when a file is made: docs/decisions/040. */
function listChosen(
  model: PrunedModel,
  devices: readonly Device[],
  asked: ChooseEngineOptions,
): readonly ModelForm[] {
  const forms = listForms(model, devices, asked).filter(
    ({ precision }) => asked.precision !== 'auto' || precision !== 'int8',
  );
  if (forms.length === 0) refuseForms(devices[0]!, asked);
  return forms;
}

/** The fastest candidate that is near enough to float32; undefined if none is. */
export function fastestOf(
  candidates: readonly EngineCandidate[],
  minCosine: number,
): EngineCandidate | undefined {
  const near = candidates.filter((one) => isNearEnough(one, minCosine));
  return near.toSorted((a, b) => b.imagesPerSecond! - a.imagesPerSecond!)[0];
}

function isNearEnough({ imagesPerSecond, cosine }: EngineCandidate, minCosine: number): boolean {
  return imagesPerSecond !== null && cosine! >= minCosine;
}

function choose(measured: readonly MeasuredForm[], { minCosine }: ChooseEngineOptions): EngineChoice {
  const fastest = fastestOf(
    measured.map(({ candidate }) => candidate),
    minCosine,
  );
  const best = measured.find(({ candidate }) => candidate === fastest);
  const candidates = measured.map(({ candidate }): EngineCandidate => {
    if (candidate === fastest) return candidate;
    const isNear = isNearEnough(candidate, minCosine);
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
    `no engine and precision that is possible here is near enough to float32 (minCosine ${minCosine}): ${candidates.map(describeCandidate).join('; ')}; choose precision "auto" or "float32", or a lower limit (option "minCosine")`,
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
