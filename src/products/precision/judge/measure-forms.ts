/** What the judge finds of the forms of a model on photos. */
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

/** Judges the forms of a model on the first photos. */
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
