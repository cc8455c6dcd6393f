/** dtype and dims of tensors that the file says nothing about: ONNX Runtime's own answer. */
import type { Value } from '../graph/graph.js';
import { cutGraph } from '../rewrite/prune.js';
import { startRewrite } from '../rewrite/rewrite.js';
import type { SessionValue } from '../runtime/protocol.js';
import type { OnnxModel } from './open-model.js';
import { stateOf } from './open-model.js';
import { openExactLane } from './session-model.js';

/** What ONNX Runtime reports about a value. */
export type InferredType = SessionValue;

/**
 * Asks ONNX Runtime for the types of values, by opening a session that has them as outputs. Nothing runs.
 *
 * @throws {@link TapirError} `SESSION_FAILED` if it refuses the part of the graph that computes them; `DEPENDENCY_MISSING`.
 */
export async function inferTypes(
  model: OnnxModel,
  values: Iterable<Value>,
): Promise<ReadonlyMap<Value, InferredType>> {
  const outputs = [...new Set(values)].map((value) => ({
    request: value.name,
    key: value.name,
    value,
    why: 'type',
  }));
  if (outputs.length === 0) return new Map();
  const cut = cutGraph(stateOf(model).graph, { outputs, allowNonTensor: true });
  const lane = await openExactLane(
    model,
    startRewrite(cut, () => NO_TYPE),
  );
  await lane.close();
  const byName = new Map(lane.facts.outputs.map((output) => [output.name, output]));
  return new Map(
    outputs.flatMap(({ value }) => {
      const type = byName.get(value.name);
      return type ? [[value, type] as const] : [];
    }),
  );
}

/** Never asked for: a graph that is not cut at interior tensors has no new inputs. */
const NO_TYPE = { elemType: 0, dims: null } as const;
