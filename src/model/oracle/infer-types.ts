/** dtype and dims of tensors that the file says nothing about: ONNX Runtime's own answer. */
import { isTapirError } from '../../base/errors.js';
import type { Value } from '../../graph/graph.js';
import { cutGraph } from '../../graph/rewrite/prune.js';
import { startRewrite, type Rewrite } from '../../graph/rewrite/rewrite.js';
import type { Replica } from '../../runtime/replica.js';
import type { SessionValue } from '../../runtime/protocol.js';
import { wholePart } from '../../tensor/tensor-part.js';
import { stateOf, type OnnxModel } from '../open-model.js';
import { seededFeeds } from './seeded-feeds.js';
import { openExact } from '../session-model.js';
import { describeInputs } from '../value-info.js';

/** What ONNX Runtime reports about a value. */
export type InferredType = SessionValue & {
  /** Whether no sizes mean a scalar; onnxruntime reports them for an unknown rank as well. */
  readonly isScalar?: boolean;
};

/**
 * Asks ONNX Runtime for the types of values, by opening a session that has them as outputs.
 *
 * @param settleScalars - Run it once on made-up inputs where that tells a scalar from an unknown rank; otherwise nothing runs.
 * @throws {@link TapirError} `SESSION_FAILED` if it refuses the part of the graph that computes them; `DEPENDENCY_MISSING`.
 */
export async function inferTypes(
  model: OnnxModel,
  values: Iterable<Value>,
  settleScalars = false,
): Promise<ReadonlyMap<Value, InferredType>> {
  const outputs = [...new Set(values)].map((value) => ({
    request: value.name,
    key: value.name,
    value,
    why: 'type',
  }));
  if (outputs.length === 0) return new Map();
  const cut = cutGraph(stateOf(model).graph, { outputs, allowNonTensor: true });
  const rewrite = startRewrite(cut, () => NO_TYPE, true);
  const replica = await openExact(model, rewrite);
  try {
    const types = new Map(replica.facts.outputs.map((type) => [type.name, type]));
    const open = replica.facts.outputs.filter(({ isTensor, dims }) => isTensor && dims.length === 0);
    const scalars =
      settleScalars && open.length > 0 ? await findScalars(replica, rewrite, open) : new Set<string>();
    const inferred = new Map<Value, InferredType>();
    for (const { value } of outputs) {
      const type = types.get(value.name);
      if (type) inferred.set(value, { ...type, isScalar: scalars.has(type.name) });
    }
    return inferred;
  } finally {
    await replica.close();
  }
}

/** Values that have no sizes when they are computed. */
async function findScalars(
  replica: Replica,
  rewrite: Rewrite,
  types: readonly SessionValue[],
): Promise<Set<string>> {
  try {
    const feeds = seededFeeds(describeInputs(rewrite), 0, { rows: 1, runs: 1, named: {} });
    const tensors = await replica.run(
      feeds.map(wholePart),
      types.map(({ name }) => name),
    );
    return new Set(tensors.flatMap(({ name, dims }) => (dims.length === 0 ? [name] : [])));
  } catch (error) {
    // A model that does not run on made-up inputs keeps its open ranks.
    if (isTapirError(error, 'RUN_FAILED') || isTapirError(error, 'INPUT_MISMATCH')) return new Set();
    throw error;
  }
}

/** Never asked for: a graph that is not cut at interior tensors has no new inputs. */
const NO_TYPE = { elemType: 0, dims: null } as const;
