/** A probe inside the model of its vectors: one file, image tensor in, probabilities out. */
import { invalidOption } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { withClassLabels } from '../../extract/class-labels.js';
import { withClassifierHead, withNeighbourHead } from '../../graph/rewrite/classifier-head.js';
import type { Rewrite, RewriteOutput } from '../../graph/rewrite/rewrite.js';
import { identifyFile } from '../../model/prune/identify-model.js';
import { readModel, type ModelSource, type OnnxModel } from '../../model/open/open-model.js';
import { deriveRewritten } from '../../model/prune/derive-rewritten.js';
import { pruneModel } from '../../model/oracle/prune-model.js';
import { prunedInternals } from '../../model/prune/pruned-model.js';
import { partsOf } from '../search/query-vectors.js';
import { checkProbe, givesProbabilities, type Probe } from './probe.js';

/**
 * Puts a probe into the model that made its vectors: the tensor of the dataset goes through the probe, and the result is the only
 * output, `probabilities` or, for `ridge` and `centroid`, `scores`. The labels stand in the metadata of the file (`labels`).
 *
 * @remarks All kept bytes are those of the model; nodes and weights are added after them. The head computes in float32.
 *
 * @param model - The model of the probe's dataset: compared by SHA-256.
 * @param probe - From {@link trainProbe} or {@link readProbe}.
 * @returns A model with the source's inputs and the one output `[N, classes]`. Save it with `save`.
 * @throws {@link TapirError} `CHECKSUM_MISMATCH` for another model; `OPTION_INVALID` for a probe whose dataset does not record its
 * model; `OUTPUT_MISFIT` if the model's operator set is older than 10; those of {@link pruneModel}.
 *
 * @example
 * ```ts
 * import { attachProbe, readProbe } from 'onnx-tapir/features';
 *
 * const classifier = await attachProbe('resnet50.onnx', await readProbe('probe.json'));
 * console.log(classifier.outputs); // [{ name: 'probabilities', dtype: 'float32', dims: ['batch', 2] }]
 * await classifier.save('classifier.onnx');
 * ```
 */
export async function attachProbe(model: OnnxModel | ModelSource, probe: Probe): Promise<OnnxModel> {
  checkProbe(probe);
  const opened = readModel(model);
  const { model: recorded, request } = probe.source;
  if (recorded === null || request === null)
    throw invalidOption('probe', 'a probe of a dataset that records its model and request', null);
  const { sha256: actual } = await identifyFile(opened);
  const { file, sha256: expected } = recorded;
  if (actual !== expected)
    throw new TapirError(
      'CHECKSUM_MISMATCH',
      `"${opened.label}" is not the model that made the probe's vectors (${file}): its SHA-256 is ${actual}, not ${expected}`,
      { details: { path: opened.label, expected, actual } },
    );
  const pruned = await pruneModel(opened, [[request.request, request.key]], partsOf(request.computed));
  const { rewrite } = prunedInternals.of(pruned);
  const headed = withHead(rewrite, rewrite.outputs[0]!, probe);
  return withClassLabels(await deriveRewritten(opened, headed, 'keys'), probe.classes);
}

function withHead(rewrite: Rewrite, output: RewriteOutput, probe: Probe): Rewrite {
  const { head, classes, normalize } = probe;
  const key = givesProbabilities(probe) ? 'probabilities' : 'scores';
  const l2Normalize = normalize === 'l2';
  if (head.type === 'neighbours')
    return withNeighbourHead(rewrite, output, key, { ...head, classes: classes.length, l2Normalize });
  return withClassifierHead(rewrite, output, key, {
    weight: Float32Array.from(head.weight),
    bias: Float32Array.from(head.bias),
    l2Normalize,
    softmax: head.activation === 'softmax',
  });
}
