/** How fast a model is before and after, in each engine that is installed. */
import { groupBy } from '../../../base/group-by.js';
import type { EngineName, EnginePrecision } from '../../../run/runtime/capabilities/capabilities.js';
import type { OnnxModel } from '../../../run/model/open/open-model.js';
import type { PrunedModel } from '../../../run/model/prune/pruned-model.js';
import { CPU_FORMS, openOutputs } from '../lowering/forms.js';
import type { Sample } from '../lowering/run-samples.js';
import { judgeForms } from '../judge/judge-forms.js';
import type { Speed } from '../judge/time-in-turns.js';

/** A model in an engine. */
export interface MeasuredSpeed extends Speed {
  readonly engine: EngineName;
  /** How the engine computes what is not in 8 bits. */
  readonly precision: EnginePrecision;
  /** Whether it is the model in 8 bits. */
  readonly isInt8: boolean;
}

const WAYS: readonly Pick<MeasuredSpeed, 'engine' | 'precision' | 'isInt8'>[] = [
  ...groupBy(CPU_FORMS, ({ engine }) => engine).values(),
].flatMap((forms) => [false, true].flatMap((isInt8) => forms.map((form) => Object.assign({ isInt8 }, form))));

/** Measures both models in turns, on one sample. Engines that are not installed or refuse a model, and precisions that the CPU lacks, are left out. */
export async function measureSpeeds(
  before: OnnxModel | PrunedModel,
  after: OnnxModel | PrunedModel,
  sample: Sample,
): Promise<MeasuredSpeed[]> {
  const feeds = Object.fromEntries(sample.map((feed) => [feed.name, feed]));
  const judged = await judgeForms(WAYS, {
    open: ({ isInt8, ...form }) =>
      openOutputs(isInt8 ? after : before, { ...form, cache: 'off', outputDtype: 'keep' }),
    batches: [{ rows: sample[0]?.dims[0] ?? 1, run: (extractor) => extractor.run(feeds) }],
  });
  return judged.flatMap(({ form, speed }) => (speed ? [{ ...form, ...speed }] : []));
}
