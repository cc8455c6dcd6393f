/** The forms in which a model can run here, and what the judge finds of them on photos. */
import { availableParallelism } from 'node:os';
import { readClassLabels } from '../../toolkit.js';
import { createFeatureExtractor, TapirError, type Device, type EmbedSource, type EngineName, type Extractor, type Precision, type PrunedModel } from '../../index.js';
import { openLoader, runPhotos } from '../../datasets/embed/embed-batches.js';
import type { EmbedSetup } from '../../datasets/embed/embed-options.js';
import { FEW_COMPARED } from '../../datasets/embed/precision-check.js';
import type { EngineCandidate } from '../../datasets/records/engine-choice.js';
import { leastCosine, type Float32Comparison } from '../../datasets/records/float32-comparison.js';
import { openSource } from '../../datasets/sources/open-source.js';
import type { PhotoMemory } from '../../feeds/photo-memory.js';
import { DecodeLanes } from '../../images/lanes/decode-lanes.js';
import { precisionOf } from '../../model/prune/pruned-model.js';
import { CAPABILITIES, enginePrecision, ENGINES, isLowered, PRECISIONS } from '../../runtime/capabilities/capabilities.js';
import { listWorkingDevices } from '../../runtime/devices/working-devices.js';
import { deviceName, readDevice } from '../../runtime/lanes/device.js';
import { inPrecision } from '../../lowering/index.js';
import { judgeForms, type OpenForm } from './judge-forms.js';

/** What runs a model, where, and how it computes. */
export interface ModelForm {
  readonly engine: EngineName;
  readonly precision: Precision;
  readonly device: Device;
}

/** Which forms are asked for; `auto` for any that can be had here. */
export interface AskedForms {
  readonly engine: EngineName | 'auto';
  readonly precision: Precision | 'auto';
  readonly device: Device;
}

/** The devices that are asked for: for `auto` all that work here. */
export async function askedDevices(device: Device, signal?: AbortSignal): Promise<readonly Device[]> {
  const { type, threads } = readDevice('device', device);
  if (type !== 'auto') return [device];
  const working = await listWorkingDevices(signal);
  return working.map((one) => (one === 'cpu' && threads > 0 ? { type: 'cpu', threads } : one));
}

/** Lists the forms that may run a model. Float16 on the CPU is float32 with conversions, and counts only if asked for: docs/decisions/034. */
export function listForms(
  model: PrunedModel,
  devices: readonly Device[],
  { engine, precision }: Pick<AskedForms, 'engine' | 'precision'>,
): readonly ModelForm[] {
  const own = precisionOf(model);
  return devices.flatMap((device) => {
    const { type } = readDevice('device', device);
    const isPossible = (one: EngineName, how: Precision): boolean => {
      const { precisions } = CAPABILITIES[one];
      if (precision === 'auto' && isLowered(how) && (own || (how === 'float16' && type === 'cpu')))
        return false;
      return precisions[own === how ? 'float32' : how]?.includes(type) === true;
    };
    return (engine === 'auto' ? ENGINES : [engine]).flatMap((one) =>
      (precision === 'auto' ? PRECISIONS : [precision])
        .filter((how) => isPossible(one, how))
        .map((how): ModelForm => ({ engine: one, precision: how, device })),
    );
  });
}

/** Opens a model in a form. */
export async function openModelForm(
  model: PrunedModel,
  { engine, precision, device }: ModelForm,
): Promise<Extractor> {
  const options = { engine, precision: enginePrecision(precision), device, outputDtype: 'keep' } as const;
  return createFeatureExtractor(await inPrecision(model, precision, engine), undefined, options);
}

/** Photos in memory, and the places of those that could be read. */
export interface PhotoBatch {
  readonly memory: PhotoMemory;
  readonly photos: readonly number[];
}

/** Reads the first photos. Throws `SOURCE_INVALID` if the source holds no photo that can be read. */
export async function readBatches(
  source: EmbedSource,
  extractor: Extractor,
  setup: EmbedSetup,
): Promise<readonly PhotoBatch[]> {
  await using lanes = new DecodeLanes(setup.transform, setup.decodeThreads || availableParallelism());
  const loaded = openLoader(openSource(source, setup.source, setup.signal), lanes, extractor, setup);
  const batches: PhotoBatch[] = [];
  let left = FEW_COMPARED;
  for await (const { memory, photos, release } of loaded) {
    const some = photos.slice(0, left);
    left -= some.length;
    if (some.length > 0) batches.push({ memory: memory.copy(), photos: some });
    release();
    if (left === 0) break;
  }
  if (batches.length > 0) return batches;
  const reason = 'none of its images can be read';
  throw new TapirError('SOURCE_INVALID', `there is nothing to measure with: ${reason}`, {
    details: { source: 'photos', reason },
  });
}

/** The float32 model that forms are compared with, open. */
export interface ExactModel extends OpenForm {
  readonly form: ModelForm;
}

/** A form, and what was found of it on photos. */
export interface MeasuredForm {
  readonly form: ModelForm;
  readonly candidate: EngineCandidate;
  readonly compared: Float32Comparison | undefined;
}

/** Judges the forms of a model on the first photos. */
export async function measureForms(
  model: PrunedModel,
  forms: readonly ModelForm[],
  exact: ExactModel,
  batches: readonly PhotoBatch[],
  setup: EmbedSetup,
): Promise<readonly MeasuredForm[]> {
  const labels = await readClassLabels(model.source);
  const isExact = (form: ModelForm): boolean =>
    (['engine', 'precision', 'device'] as const).every((field) => form[field] === exact.form[field]);
  const judged = await judgeForms(forms, {
    open: (form) => openModelForm(model, form),
    batches: batches.map(({ memory, photos }) => ({
      rows: photos.length,
      run: (extractor) => runPhotos(extractor, memory, photos, setup),
    })),
    reference: {
      ...exact,
      form: forms.find(isExact),
      classes: 'labels' in labels ? labels.labels.length : undefined,
    },
    signal: setup.signal,
  });
  return judged.map(({ form, reason, speed, memoryBytes, near }) => ({
    form,
    candidate: {
      ...asCandidate(form, reason),
      imagesPerSecond: speed?.imagesPerSecond ?? null,
      cosine: (near && leastCosine(near.compared)?.least) ?? null,
      neighbours: near?.neighbours ?? null,
      top1: near?.top1 ?? null,
      memoryBytes,
    },
    compared: near?.compared,
  }));
}

/** A form of which nothing was measured. */
export function asCandidate(
  { engine, precision, device }: ModelForm,
  reason: string | null,
): EngineCandidate {
  const name = deviceName(readDevice('device', device));
  const unmeasured = { imagesPerSecond: null, cosine: null, neighbours: null, top1: null, memoryBytes: null };
  return { engine, device: name, precision, ...unmeasured, reason };
}
