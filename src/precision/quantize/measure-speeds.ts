/** How fast a model is before and after, in each engine that is installed. */
import { createFeatureExtractor, type EngineName, type Extractor, type OnnxModel, type PrunedModel } from '../../index.js';
import { prunedInternals } from '../../model/prune/pruned-model.js';
import {
  CAPABILITIES,
  ENGINE_PRECISIONS,
  ENGINES,
  type EnginePrecision,
} from '../../runtime/capabilities/capabilities.js';
import { judgeForms } from '../judge/judge-forms.js';
import type { Speed } from '../judge/time-in-turns.js';
import type { Sample } from '../../lowering/index.js';

/** A model in an engine. */
export interface MeasuredSpeed extends Speed {
  readonly engine: EngineName;
  /** How the engine computes what is not in 8 bits. */
  readonly precision: EnginePrecision;
  /** Whether it is the model in 8 bits. */
  readonly isInt8: boolean;
}

const WAYS: readonly Pick<MeasuredSpeed, 'engine' | 'precision' | 'isInt8'>[] = ENGINES.flatMap((engine) =>
  [false, true].flatMap((isInt8) =>
    ENGINE_PRECISIONS.filter((one) => CAPABILITIES[engine].precisions[one]?.includes('cpu')).map(
      (precision) => ({ engine, precision, isInt8 }),
    ),
  ),
);

/** Measures both models in turns, on one sample. Engines that are not installed or refuse a model, and precisions that the CPU lacks, are left out. */
export async function measureSpeeds(
  before: OnnxModel | PrunedModel,
  after: OnnxModel | PrunedModel,
  sample: Sample,
): Promise<MeasuredSpeed[]> {
  const feeds = Object.fromEntries(sample.map((feed) => [feed.name, feed]));
  const judged = await judgeForms(WAYS, {
    open: (way) => open(way.isInt8 ? after : before, way),
    batches: [{ rows: sample[0]?.dims[0] ?? 1, run: (extractor) => extractor.run(feeds) }],
  });
  return judged.flatMap(({ form, speed }) => (speed ? [{ ...form, ...speed }] : []));
}

async function open(
  model: OnnxModel | PrunedModel,
  { engine, precision }: Pick<MeasuredSpeed, 'engine' | 'precision'>,
): Promise<Extractor> {
  const options = { engine, precision, cache: 'off', outputDtype: 'keep' } as const;
  if (prunedInternals.has(model)) return createFeatureExtractor(model, undefined, options);
  const names = model.outputs.map(({ name }) => name);
  return createFeatureExtractor(model, names, options);
}
