/** Computes lists of integers that a graph computes from constants alone: axes, bounds, pads. */
import type { Graph, Value } from '../../graph/graph.js';
import { nodeRoles } from '../../graph/roles.js';
import { cutGraph } from '../../graph/rewrite/prune.js';
import { startRewrite } from '../../graph/rewrite/rewrite.js';
import { isTapirError } from '../../base/errors.js';
import type { SessionHolder } from './session-holder.js';

/** Longer lists of integers hold neither sizes nor axes. */
const MAX_LIST = 64;

/** Those of the values that depend on no input, with their elements. Without such values, no session starts. */
export async function foldConstants(
  graph: Graph,
  values: readonly Value[],
  sessions: SessionHolder,
): Promise<ReadonlyMap<Value, readonly number[]>> {
  const roles = nodeRoles(graph);
  const isConstant = ({ producer }: Value): boolean =>
    producer !== undefined && roles.get(producer) === 'constant';
  const asked = [...new Set(values)].filter(isConstant);
  if (asked.length === 0) return new Map();
  const outputs = asked.map((value) => ({ request: value.name, key: value.name, value, why: 'constant' }));
  const rewrite = startRewrite(cutGraph(graph, { outputs }), () => ({ elemType: 0, dims: null }), true);
  try {
    const replica = await sessions.open({ rewrite });
    const tensors = await replica.run(
      [],
      asked.map(({ name }) => name),
    );
    const lists = tensors.flatMap(({ dtype, data }, i): [Value, number[]][] =>
      (dtype === 'int64' || dtype === 'int32') && data.length <= MAX_LIST
        ? [[asked[i]!, Array.from(data as Iterable<number | bigint>, Number)]]
        : [],
    );
    return new Map(lists);
  } catch (error) {
    // Random numbers, for example, may have a form that onnxruntime-node cannot give out: then the lists stay unknown.
    if (isTapirError(error, 'SESSION_FAILED') || isTapirError(error, 'RUN_FAILED')) return new Map();
    throw error;
  }
}
