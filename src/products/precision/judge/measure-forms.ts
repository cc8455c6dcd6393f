/** What the judge finds of the forms of a model on the first photos of a source. */
import { availableParallelism } from 'node:os';
import { TapirError } from '../../../base/errors.js';
import { openLoader, runPhotos } from '../../../datasets/embed/embed-batches.js';
import type { EmbedSetup } from '../../../datasets/embed/embed-options.js';
import { FEW_COMPARED } from '../../../datasets/embed/precision-check.js';
import { openSource, type EmbedSource } from '../../../datasets/sources/open-source.js';
import type { Extractor } from '../../../extract/extractor.js';
import type { NamedTensor } from '../../../onnx/tensor/tensor.js';
import { DecodeLanes } from '../../../photos/images/lanes/decode-lanes.js';
import { leastCosine, type Float32Comparison } from '../../../datasets/records/float32-comparison.js';
import type { EngineCandidate } from '../../../datasets/records/engine-choice.js';
import { nameDevice, openModelForm, type ModelForm } from '../lowering/forms.js';
import type { PrunedModel } from '../../../run/model/prune/pruned-model.js';
import { readClassLabels } from '../../../extract/class-labels.js';
import { judgeForms, type JudgedBatch, type OpenForm } from './judge-forms.js';

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

/** A batch of photos that any extractor of the same input can run. */
export interface PhotoBatch extends JudgedBatch {
  /** The feeds of the first ones, at most so many. */
  readonly feeds: (most: number) => Readonly<Record<string, NamedTensor>>;
}

/** Reads the first 16 photos into memory. Throws `SOURCE_INVALID` if the source holds no photo that can be read. */
export async function readFirstPhotos(
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
    if (some.length > 0) {
      const held = memory.copy();
      batches.push({
        rows: some.length,
        run: (one) => runPhotos(one, held, some, setup),
        feeds: (most) => held.filled(some.slice(0, most)),
      });
    }
    release();
    if (left === 0) break;
  }
  if (batches.length > 0) return batches;
  const reason = 'none of its images can be read';
  throw new TapirError('SOURCE_INVALID', `there is nothing to measure with: ${reason}`, {
    details: { source: 'photos', reason },
  });
}

/** Judges the forms of a model on photos. */
export async function measureForms(
  model: PrunedModel,
  forms: readonly ModelForm[],
  exact: ExactModel,
  batches: readonly JudgedBatch[],
  signal: AbortSignal | undefined,
): Promise<readonly MeasuredForm[]> {
  const labels = await readClassLabels(model.source);
  const isExact = (form: ModelForm): boolean =>
    (['engine', 'precision', 'device'] as const).every((field) => form[field] === exact.form[field]);
  const judged = await judgeForms(forms, {
    open: (form) => openModelForm(model, form),
    batches,
    reference: {
      ...exact,
      form: forms.find(isExact),
      classes: 'labels' in labels ? labels.labels.length : undefined,
    },
    signal,
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
  const unmeasured = { imagesPerSecond: null, cosine: null, neighbours: null, top1: null, memoryBytes: null };
  return { engine, device: nameDevice(device), precision, ...unmeasured, reason };
}
