/** Types and constants of values, where the file does not state them: a session infers or computes them. */
import { isTapirError } from '../../../base/errors.js';
import { tensorType, type Graph, type Value } from '../../../onnx/graph/graph.js';
import { cutGraph, outputsOf } from '../../../onnx/graph/rewrite/prune.js';
import { feedInitializers, startRewrite, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import { nodeRoles } from '../../../onnx/graph/roles.js';
import type { SessionValue } from '../../runtime/lanes/protocol.js';
import type { Replica } from '../../runtime/replica.js';
import type { TensorType } from '../../../onnx/file/wire/write-model.js';
import { elementCount } from '../../../onnx/tensor/tensor.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import { wholePart } from '../../../onnx/tensor/tensor-part.js';
import type { CheckedSizes } from '../open/input-sizes.js';
import { modelInternals } from '../open/model-state.js';
import { correctedType, describeOutput, typeFrom, type InferredType } from '../prune/feature-info.js';
import { withTypes } from '../prune/fill-types.js';
import type { Unstated } from '../prune/prepared.js';
import { integersOf } from './measure-values.js';
import { runMadeUp } from './run-made-up.js';
import type { SessionHolder } from './session-holder.js';

/** Describes values: by what the file states, else by what is inferred. Parameters as for {@link inferTypes}. */
export async function describeValues(
  values: readonly Value[],
  given: CheckedSizes | undefined,
  sessions: SessionHolder,
): Promise<(value: Value) => TensorInfo> {
  const open = values.filter((value) => {
    const { dtype, dims } = describeOutput(value, undefined);
    return value.producer !== undefined && (dtype === null || dims === null);
  });
  const inferred = await inferTypes(open, given, sessions);
  return (value) => describeOutput(value, inferred.get(value));
}

/**
 * Infers the types of values by opening a session that returns them. Without values, no session starts. `given` are sizes for made-up
 * inputs, on which the values run if only that tells their rank; without them, nothing runs. Throws `SESSION_FAILED`.
 */
export async function inferTypes(
  values: readonly Value[],
  given: CheckedSizes | undefined,
  sessions: SessionHolder,
): Promise<ReadonlyMap<Value, InferredType>> {
  if (values.length === 0) return new Map();
  const rewrite = fetchOf(modelInternals.of(sessions.model).graph, values);
  let outputs = await readTypes(withoutWeights(rewrite), sessions).catch(ignoreRefusal);
  const isOpen = ({ isTensor, dims }: SessionValue): boolean => isTensor && dims.length === 0;
  let ranks: ReadonlyMap<string, number> = new Map();
  if (!outputs || (given && outputs.some(isOpen))) {
    const replica = await sessions.open({ rewrite });
    ({ outputs } = replica.facts);
    const open = outputs.filter(isOpen);
    if (given && open.length > 0) ranks = await findRanks(replica, rewrite, open, given);
  }
  const types = new Map(outputs.map((type) => [type.name, type]));
  const inferred = new Map<Value, InferredType>();
  for (const { value } of rewrite.outputs) {
    const type = types.get(value.name);
    if (type) inferred.set(value, { ...type, rank: ranks.get(type.name) });
  }
  return inferred;
}

/**
 * Infers the types of values from the inputs alone, whatever the file states of the values between. An exporter may state the batch that
 * it traced although the inputs leave it open. Values that ONNX Runtime cannot infer so are left out. `fed` are types of inputs in place of
 * those that the file states.
 */
export async function inferAnew(
  values: readonly Value[],
  sessions: SessionHolder,
  fed: ReadonlyMap<Value, TensorType> = new Map(),
): Promise<ReadonlyMap<Value, SessionValue>> {
  const { graph } = modelInternals.of(sessions.model);
  const rewrite = fetchOf(graph, values);
  const restated = new Map(fed);
  for (const value of rewrite.cut.values) {
    const stated = value.producer && tensorType(value);
    if (stated?.dims) restated.set(value, { elemType: stated.elemType, dims: null });
  }
  const outputs = rewrite.outputs.map((output) => ({ ...output, type: restated.get(output.value) }));
  const types = await readTypes(withoutWeights({ ...rewrite, restated, outputs }), sessions).catch(
    ignoreRefusal,
  );
  return new Map(types?.map((type) => [graph.values.get(type.name)!, type]));
}

/** States what a session tells. What it does not tell stays open, and a note says so. */
export async function fillBySession(
  rewrite: Rewrite,
  { open, doubtful }: Unstated,
  inputSizes: CheckedSizes,
  sessions: SessionHolder,
): Promise<Rewrite> {
  try {
    const inferred = await inferTypes(open, inputSizes, sessions);
    const anew = doubtful.length === 0 ? undefined : await inferAnew(doubtful, sessions);
    return withTypes(rewrite, (value) =>
      open.includes(value)
        ? typeFrom(value, inferred.get(value))
        : doubtful.includes(value)
          ? correctedType(value, anew?.get(value))
          : undefined,
    );
  } catch (error) {
    if (!isTapirError(error)) throw error;
    const names = [...open, ...doubtful].map(({ name }) => `"${name}"`).join(', ');
    const note = `the types of ${names} are not stated: ${error.message}`;
    return { ...rewrite, notes: [...rewrite.notes, note] };
  }
}

async function readTypes(rewrite: Rewrite, sessions: SessionHolder): Promise<readonly SessionValue[]> {
  const { facts } = await sessions.open({ rewrite });
  return facts.outputs;
}

/** Some operators want their weights in the file: then a session must read them. */
function ignoreRefusal(error: unknown): undefined {
  if (!isTapirError(error, 'SESSION_FAILED')) throw error;
}

/** Large weights as inputs: types do not depend on them, and reading them takes most of the time. */
function withoutWeights(rewrite: Rewrite): Rewrite {
  const isLarge = ({ initializer }: Value): boolean =>
    initializer !== undefined && elementCount(initializer.dims) > MOST_ELEMENTS;
  return feedInitializers(rewrite, [...rewrite.cut.values].filter(isLarge));
}

/** More elements than a tensor has that tells sizes. */
const MOST_ELEMENTS = 1024;

/** The part of a graph that computes some values, with those as outputs. */
function fetchOf(graph: Graph, values: readonly Value[]): Rewrite {
  const outputs = outputsOf(new Set(values), 'asked');
  return startRewrite(cutGraph(graph, { outputs, allowNonTensor: true }), true);
}

/** The ranks of values when they are computed. */
async function findRanks(
  replica: Replica,
  rewrite: Rewrite,
  types: readonly SessionValue[],
  given: CheckedSizes,
): Promise<Map<string, number>> {
  try {
    const names = types.map(({ name }) => name);
    const { result } = await runMadeUp({ rewrite, given }, (feeds) =>
      replica.run(feeds.map(wholePart), names),
    );
    return new Map(result.map(({ dims }, i) => [names[i]!, dims.length]));
  } catch (error) {
    // If the model does not run on made-up inputs, the ranks stay unknown.
    if (isTapirError(error, 'RUN_FAILED') || isTapirError(error, 'INPUT_MISMATCH')) return new Map();
    throw error;
  }
}

/** The elements of those values that are short lists of integers and depend on no input. Without such values, no session starts. */
export async function foldConstants(
  values: readonly Value[],
  sessions: SessionHolder,
): Promise<ReadonlyMap<Value, readonly number[]>> {
  const { graph } = modelInternals.of(sessions.model);
  const roles = nodeRoles(graph);
  const asked = values.filter(({ producer }) => producer && roles.get(producer) === 'constant');
  if (asked.length === 0) return new Map();
  const rewrite = fetchOf(graph, asked);
  try {
    const replica = await sessions.open({ rewrite });
    const names = rewrite.outputs.map(({ tensor }) => tensor);
    const tensors = await replica.run([], names);
    return new Map(
      tensors.flatMap((tensor, i): [Value, readonly number[]][] => {
        const list = integersOf(tensor);
        return list ? [[rewrite.outputs[i]!.value, list]] : [];
      }),
    );
  } catch (error) {
    // Random numbers, for example, may have a form that onnxruntime-node cannot give out: then the lists stay unknown.
    if (isTapirError(error, 'SESSION_FAILED') || isTapirError(error, 'RUN_FAILED')) return new Map();
    throw error;
  }
}
