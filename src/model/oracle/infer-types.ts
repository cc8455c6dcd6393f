/** Infers dtype and dims that the file does not state: ONNX Runtime does so when it opens a session. */
import { isTapirError } from '../../base/errors.js';
import type { Graph, Value } from '../../graph/graph.js';
import { cutGraph } from '../../graph/rewrite/prune.js';
import { startRewrite, type Rewrite } from '../../graph/rewrite/rewrite.js';
import type { SessionValue } from '../../runtime/lanes/protocol.js';
import type { Replica } from '../../runtime/replica.js';
import { wholePart } from '../../tensor/tensor-part.js';
import type { InferredType } from '../open/model-answers.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { describeInputs } from '../open/value-info.js';
import { runMadeUp } from './run-made-up.js';
import type { SessionHolder } from './session-holder.js';

/**
 * Infers the types of values by opening a session that returns them. Without values, no session starts.
 *
 * @param given - Sizes for made-up inputs, on which the values run if only that tells their rank. Without them,
 * nothing runs.
 * @throws {@link TapirError} `SESSION_FAILED` if ONNX Runtime refuses the part of the graph that computes them.
 */
export async function inferTypes(
  graph: Graph,
  values: readonly Value[],
  given: CheckedSizes | undefined,
  sessions: SessionHolder,
): Promise<ReadonlyMap<Value, InferredType>> {
  const outputs = [...new Set(values)].map((value) => ({
    request: value.name,
    key: value.name,
    value,
    why: 'type',
  }));
  if (outputs.length === 0) return new Map();
  const rewrite = startRewrite(cutGraph(graph, { outputs, allowNonTensor: true }), () => NO_TYPE, true);
  const replica = await sessions.open({ rewrite });
  const types = new Map(replica.facts.outputs.map((type) => [type.name, type]));
  const open = replica.facts.outputs.filter(({ isTensor, dims }) => isTensor && dims.length === 0);
  const ranks =
    given && open.length > 0 ? await findRanks(replica, rewrite, open, given) : new Map<string, number>();
  const inferred = new Map<Value, InferredType>();
  for (const { value } of outputs) {
    const type = types.get(value.name);
    if (type) inferred.set(value, { ...type, rank: ranks.get(type.name) });
  }
  return inferred;
}

/** The ranks of values when they are computed. */
async function findRanks(
  replica: Replica,
  rewrite: Rewrite,
  types: readonly SessionValue[],
  given: CheckedSizes,
): Promise<Map<string, number>> {
  try {
    const { graph } = rewrite.cut;
    const madeUp = { graph, inputs: describeInputs(rewrite), given, seed: 0, rows: 1, runs: 1 };
    const names = types.map(({ name }) => name);
    const { result } = await runMadeUp(madeUp, (feeds) => replica.run(feeds.map(wholePart), names));
    return new Map(result.map(({ dims }, i) => [names[i]!, dims.length]));
  } catch (error) {
    // If the model does not run on made-up inputs, the ranks stay unknown.
    if (isTapirError(error, 'RUN_FAILED') || isTapirError(error, 'INPUT_MISMATCH')) return new Map();
    throw error;
  }
}

/** Never used: a cut at the graph's own inputs adds no inputs. */
const NO_TYPE = { elemType: 0, dims: null } as const;
