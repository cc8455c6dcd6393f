/** The oracle of a model: answers questions that the file leaves open, by running the model on the CPU. */
import type { Graph, Value } from '../../graph/graph.js';
import type { MeasuredTokens } from '../../graph/rewrite/token-grid.js';
import { type Rewrite, startRewrite } from '../../graph/rewrite/rewrite.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';
import { describeOutput } from '../prune/feature-info.js';
import type { InferredType, ModelAnswers } from '../open/model-answers.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import type { LaidOut } from '../prune/prepare.js';
import { comparePruned, type Comparison, type VerifyReport } from './compare-pruned.js';
import { measureTokens } from './measure-tokens.js';
import { openBatch } from './open-batch.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { SessionHolder } from './session-holder.js';
import { nodeRoles } from '../../graph/roles.js';
import { cutGraph } from '../../graph/rewrite/prune.js';
import { isTapirError } from '../../base/errors.js';
import type { SessionValue } from '../../runtime/lanes/protocol.js';
import type { Replica } from '../../runtime/replica.js';
import { wholePart } from '../../tensor/tensor-part.js';
import { describeInputs } from '../open/value-info.js';
import { runMadeUp } from './run-made-up.js';

/**
 * Answers questions about one model.
 *
 * @remarks Holds at most one session. A question opens it when it needs one; the next question that needs another session
 * replaces it; `close` ends it. Ask one question at a time.
 */
export class ModelOracle implements ModelAnswers {
  readonly #model: OnnxModel;
  readonly #sessions: SessionHolder;

  constructor(model: OnnxModel) {
    this.#model = model;
    this.#sessions = new SessionHolder(model);
  }

  inferTypes(values: readonly Value[], given?: CheckedSizes): Promise<ReadonlyMap<Value, InferredType>> {
    const { graph } = modelInternals.of(this.#model);
    return inferTypes(graph, values, given, this.#sessions);
  }

  /** Describes values: by what the file states, else by what is inferred. */
  async describeValues(
    values: readonly Value[],
    given?: CheckedSizes,
  ): Promise<(value: Value) => TensorInfo> {
    const open = values.filter((value) => {
      const { dtype, dims } = describeOutput(value, undefined);
      return value.producer !== undefined && (dtype === null || dims === null);
    });
    const inferred = await this.inferTypes(open, given);
    return (value) => describeOutput(value, inferred.get(value));
  }

  /** The elements of lists of integers that depend on no input; see {@link foldConstants}. */
  foldConstants(values: readonly Value[]): Promise<ReadonlyMap<Value, readonly number[]>> {
    const { graph } = modelInternals.of(this.#model);
    return foldConstants(graph, values, this.#sessions);
  }

  openBatch(rewrite: Rewrite, given: CheckedSizes): Promise<Rewrite> {
    return openBatch(this.#model, rewrite, given, this.#sessions);
  }

  measureTokens(rewrite: Rewrite, value: Value, given: CheckedSizes): Promise<MeasuredTokens | undefined> {
    return measureTokens(rewrite, value, given, this.#sessions);
  }

  /** Compares a pruned model with the full graph; see {@link verifyModel}. */
  compare(pruned: LaidOut, options: Comparison): Promise<VerifyReport> {
    return comparePruned(pruned, options, this.#sessions);
  }

  /** Ends the session, if one is open. */
  close(): Promise<void> {
    return this.#sessions.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

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
