/** Options that a variant does not use: given, they are refused; their defaults are not, as a command gives all of its flags. */
import { describe, expect, it } from 'vitest';
import { defaultsOf } from '../src/base/options.js';
import { ATTRIBUTION_FIELDS, readAttributionOptions } from '../src/products/explain/options.js';
import { TRAIN_PROBE_FIELDS, trainProbe } from '../src/products/features/probe/train-probe.js';
import { LOWERING_FIELDS, lowerPrecision } from '../src/products/precision/lowering/lower-precision.js';
import { QUANTIZE_FIELDS, quantizeModel } from '../src/products/precision/quantize/quantize-model.js';
import { SPLIT_FIELDS, splitModel } from '../src/extract/stages/split-model.js';
import {
  readTrainFolderOptions,
  TRAIN_FOLDER_FIELDS,
} from '../src/learn/train/folder/train-folder-options.js';
import { datasetOf, readGolden } from './support/probe-data.js';

const dataset = datasetOf(readGolden('wine'));
const noModel = 'no-such.onnx';

type Call = (given: object) => unknown;
/** A function, the defaults of its options, a variant, and what the variant does not use. */
const CASES: (readonly [Call, object, object, object])[] = [];
const add = (call: Call, defaults: object, variant: object, unused: object): void => {
  for (const [name, value] of Object.entries(unused))
    CASES.push([call, defaults, variant, { [name]: value as unknown }]);
};

const probe: Call = (given) => trainProbe(dataset, new Map(), given);
const probeDefaults = defaultsOf(TRAIN_PROBE_FIELDS);
const iterations = { tolerance: 1e-3, maxIterations: 5 };
const weighed = { strength: 5, classWeights: 'balanced' };
add(probe, probeDefaults, { kind: 'logistic' }, { neighbours: 9 });
add(probe, probeDefaults, { kind: 'ridge' }, { neighbours: 9, ...iterations });
add(probe, probeDefaults, { kind: 'knn' }, { ...weighed, ...iterations });
add(probe, probeDefaults, { kind: 'centroid' }, { ...weighed, ...iterations, neighbours: 9 });

const attribution: Call = (given) => readAttributionOptions(given);
const attributionDefaults = defaultsOf(ATTRIBUTION_FIELDS);
const path = { steps: 9, baseline: 'mean', rule: 'trapezoid' };
const noise = { samples: 3, noise: 0.5, seed: 7 };
add(attribution, attributionDefaults, { method: 'grad-cam' }, { ...path, ...noise, batch: 3 });
add(attribution, attributionDefaults, { method: 'score-cam' }, { ...path, ...noise });
add(attribution, attributionDefaults, { method: 'integrated-gradients' }, { ...noise, batch: 3 });
add(attribution, attributionDefaults, { method: 'var-grad' }, { ...path, batch: 3 });

const lowering: Call = (given) => lowerPrecision(noModel, given);
add(lowering, defaultsOf(LOWERING_FIELDS), { precision: 'int8' }, { minCosine: 0.5 });
add(lowering, defaultsOf(LOWERING_FIELDS), { precision: 'float16' }, { minCosine: 0.5 });
add(
  (given) => quantizeModel(noModel, 'photos', given),
  defaultsOf(QUANTIZE_FIELDS),
  { activations: 'dynamic' },
  { minNeighbours: 0.5, seconds: 7 },
);
add((given) => splitModel(noModel, { cuts: ['a'] }, given), defaultsOf(SPLIT_FIELDS), {}, { maxTensors: 2 });
add(
  (given) => readTrainFolderOptions({ out: 'x.onnx', ...given }),
  defaultsOf(TRAIN_FOLDER_FIELDS),
  { out: 'x.onnx', validation: 'v' },
  { holdout: 0.5 },
);

/** The code and the option of the error; undefined for none. */
async function refusal(call: Call, given: object): Promise<unknown> {
  try {
    await call(given);
    return undefined;
  } catch (error) {
    const { code, details } = error as {
      readonly code?: string;
      readonly details?: { readonly option?: string };
    };
    return [code, details?.option];
  }
}

describe('an option that a variant does not use', () => {
  it.each(CASES)('%s %o %o: %o', async (call, defaults, variant, unused) => {
    const [name] = Object.keys(unused);
    expect(await refusal(call, { ...variant, ...unused })).toEqual(['OPTION_INVALID', name]);
    // Another error may follow: there is no such model, and no label.
    expect(await refusal(call, { ...defaults, ...variant })).not.toEqual(['OPTION_INVALID', name]);
  });
});
