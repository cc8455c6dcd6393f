/** A linear classifier inside the model of its vectors: one file, image tensor in, probabilities out. */
import { checkIdentity } from '../../../run/model/prune/identify-model.js';
import { checkLabels } from '../../../extract/class-labels.js';
import { readHead, type HeadOptions } from '../../../extract/with-heads.js';
import { readModel, type ModelSource, type OnnxModel } from '../../../run/model/open/open-model.js';
import { withClassifier, type ClassifierKind } from '../../../extract/with-classifier.js';
import { partsOf } from '../../../datasets/embed/recorded-recipe.js';
import {
  boolean,
  oneOf,
  optional,
  readOptions,
  text,
  unchecked,
  type Fields,
} from '../../../base/options.js';
import { invalidOption } from '../../../base/checks.js';
import { checkProbe, givesProbabilities, type Probe, type ProbeHead } from './probe.js';

/** The weights of a linear classifier from elsewhere, such as `coef_` and `intercept_` of scikit-learn, and the node whose vectors it takes. */
export interface LinearClassifier extends HeadOptions {
  /** The node; its name as for {@link pruneModel}. */
  readonly node: string;
  /** `softmax` (the default) makes `probabilities` of the scores; `none` leaves `scores`. */
  readonly activation?: 'softmax' | 'none';
  /** Whether each vector is divided by its Euclidean norm first. */
  readonly l2Normalize?: boolean;
  /** Labels of the classes, in order: written into the metadata of the file. */
  readonly classes?: readonly string[] | undefined;
}

/**
 * Puts a linear classifier on a node of a model, and makes its result the only output, `probabilities` or `scores`. A probe goes on the
 * tensor of its dataset, weights of your own on the node that you name. The labels stand in the metadata of the file (`labels`).
 *
 * @remarks All kept bytes are those of the model; nodes and weights are added after them. The head computes in float32. A probe of the
 * kind `ridge` or `centroid` gives `scores`.
 *
 * @param model - The model; that of the probe's dataset for a probe: compared by SHA-256.
 * @param probe - From {@link trainProbe} or {@link readProbe}; or a {@link LinearClassifier}.
 * @returns A model with the source's inputs and the one output `[N, classes]`. Save it with `save`.
 * @throws {@link TapirError} `CHECKSUM_MISMATCH` for another model than the probe's; `OPTION_INVALID` for a probe whose dataset does not
 * record its model; `INPUT_MISMATCH` for weights of another form; `OUTPUT_MISFIT` if the node has another number of features, or the
 * model's operator set is older than 10; those of {@link pruneModel}.
 *
 * @example
 * ```ts
 * import { attachProbe, readProbe } from 'onnx-tapir/features';
 *
 * const classifier = await attachProbe('resnet50.onnx', await readProbe('probe.json'));
 * console.log(classifier.outputs); // [{ name: 'probabilities', dtype: 'float32', dims: ['batch', 2] }]
 * await classifier.save('classifier.onnx');
 * ```
 *
 * @example Weights of your own: two classes of the vectors of `avgpool`.
 * ```ts
 * import { attachProbe } from 'onnx-tapir/features';
 *
 * const weight = { dims: [2, 2048], data: new Float32Array(2 * 2048) };
 * const classifier = await attachProbe('resnet50.onnx', { node: 'avgpool', weight, classes: ['cat', 'dog'] });
 * await classifier.save('cats.onnx');
 * ```
 */
export async function attachProbe(
  model: OnnxModel | ModelSource,
  probe: Probe | LinearClassifier,
): Promise<OnnxModel> {
  if (isLinearClassifier(probe)) return attachLinear(readModel(model), probe);
  checkProbe(probe);
  const opened = readModel(model);
  const { model: recorded, request } = probe.source;
  if (recorded === null || request === null)
    throw invalidOption('probe', 'a probe of a dataset that records its model and request', null);
  await checkIdentity(opened, recorded, "the model that made the probe's vectors");
  const { pool, ...parts } = partsOf(request.computed);
  const { head, normalize, classes: labels } = probe;
  const key = givesProbabilities(probe) ? 'probabilities' : 'scores';
  const place = { node: request.request, key, pool, l2Normalize: normalize === 'l2', labels };
  return withClassifier(opened, { ...place, head: kindOf(head) }, parts);
}

function kindOf(head: ProbeHead): ClassifierKind {
  if (head.type === 'neighbours') return head;
  const { weight, bias, activation } = head;
  const linear = { weight: Float32Array.from(weight), bias: Float32Array.from(bias) };
  return { ...linear, softmax: activation === 'softmax' };
}

function isLinearClassifier(probe: Probe | LinearClassifier): probe is LinearClassifier {
  return typeof probe === 'object' && probe !== null && 'node' in probe;
}

/** Weight, bias and pool are checked by {@link readHead}. */
const LINEAR_FIELDS: Fields<Required<LinearClassifier>> = {
  node: text(''),
  weight: unchecked<HeadOptions['weight']>({ dims: [0, 0], data: new Float32Array() }),
  bias: unchecked(undefined),
  pool: unchecked(undefined),
  activation: oneOf(['softmax', 'none'], 'softmax'),
  l2Normalize: boolean(false),
  classes: optional(checkLabels),
};

async function attachLinear(model: OnnxModel, given: LinearClassifier): Promise<OnnxModel> {
  const options = readOptions(LINEAR_FIELDS, given, 'attachProbe', 'probe');
  const { node, activation, l2Normalize, classes } = options;
  const { pool, ...linear } = readHead('probe', options);
  const count = linear.bias.length;
  if (classes && classes.length !== count)
    throw invalidOption('probe.classes', `${count} labels, one per row of the weight`, classes.length);
  const softmax = activation === 'softmax';
  const key = softmax ? 'probabilities' : 'scores';
  return withClassifier(model, {
    node,
    key,
    pool,
    l2Normalize,
    labels: classes,
    head: { ...linear, softmax },
  });
}
