/** How fast a model is before and after, in each engine that is installed. */
import { createFeatureExtractor } from '../../extract/create-feature-extractor.js';
import type { Extractor } from '../../extract/extractor.js';
import type { OnnxModel } from '../../model/open/open-model.js';
import { prunedInternals, type PrunedModel } from '../../model/prune/pruned-model.js';
import {
  CAPABILITIES,
  ENGINE_PRECISIONS,
  ENGINES,
  lackOf,
  type EngineName,
  type EnginePrecision,
} from '../../runtime/capabilities/capabilities.js';
import { timeInTurns, type Speed } from '../engines/time-in-turns.js';
import type { Sample } from '../run-samples.js';

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
  const opened: { readonly way: (typeof WAYS)[number]; readonly extractor: Extractor }[] = [];
  try {
    for (const way of WAYS) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other: opening them side by side is no faster
      const extractor = await open(way.isInt8 ? after : before, way);
      if (extractor) opened.push({ way, extractor });
    }
    const feeds = Object.fromEntries(sample.map((feed) => [feed.name, feed]));
    const runs = opened.map(
      ({ extractor }) =>
        () =>
          extractor.run(feeds),
    );
    const speeds = await timeInTurns(runs, sample[0]?.dims[0] ?? 1);
    return opened.map(({ way }, k) => ({ ...way, ...speeds[k]! }));
  } finally {
    await Promise.all(opened.map(({ extractor }) => extractor.close()));
  }
}

async function open(
  model: OnnxModel | PrunedModel,
  { engine, precision }: Pick<MeasuredSpeed, 'engine' | 'precision'>,
): Promise<Extractor | undefined> {
  try {
    const options = { engine, precision, cache: 'off', outputDtype: 'keep' } as const;
    if (prunedInternals.has(model)) return await createFeatureExtractor(model, undefined, options);
    const names = model.outputs.map(({ name }) => name);
    return await createFeatureExtractor(model, names, options);
  } catch (error) {
    if (lackOf(error) === undefined) throw error;
    return undefined;
  }
}
