/** Model + request → a rewrite: resolves names, cuts the graph, adds the requested parts. */
import { TapirError } from '../../base/errors.js';
import type { Value } from '../../graph/graph.js';
import { resolveNames } from '../../graph/names/resolve-names.js';
import type { Chunk } from '../../onnx/wire/chunk.js';
import { elementTypeNumber } from '../../onnx/wire/schema.js';
import { isPlain } from '../../graph/rewrite/feature-parts.js';
import { cutGraph, interiorInputs, wholeCut, type Cut, type CutOutput } from '../../graph/rewrite/prune.js';
import type { MeasuredTokens } from '../../graph/rewrite/token-grid.js';
import { checkNodeNames } from '../../graph/rewrite/tidy.js';
import type { Naming } from '../../graph/rewrite/lay-out.js';
import { withRequestedParts, type KnownValues, type TypeOf } from '../../graph/rewrite/requested-parts.js';
import { startRewrite, type Rewrite } from '../../graph/rewrite/rewrite.js';
import type { TensorType } from '../../onnx/wire/write-model.js';
import type { TensorInfo } from '../../tensor/tensor-info.js';
import { describeOutput } from './feature-info.js';
import { checkInputSizes, type CheckedSizes } from '../open/input-sizes.js';
import type { InferredType, ModelAnswers } from '../open/model-answers.js';
import { modelInternals } from '../open/model-state.js';
import type { OnnxModel } from '../open/open-model.js';
import type { ReturnNode } from '../open/return-nodes.js';
import type { RewriteSetup } from './rewrite-options.js';
import { describeInputs, describeValue } from '../open/value-info.js';

/** A checked request. */
export interface RewriteRequest extends RewriteSetup {
  readonly outputs: readonly ReturnNode[];
  /** The names of the outputs in the written file. */
  readonly naming: Naming;
  readonly allowNonTensor: boolean;
  /** State dtype and dims of every output in the written file. */
  readonly fillTypes: boolean;
  /** Sort the nodes of the written graph, give them distinct names, drop unused imports. */
  readonly tidy: boolean;
}

/** A rewrite, and what it was made from. Immutable. */
export interface Prepared extends KnownValues {
  readonly model: OnnxModel;
  readonly request: RewriteRequest;
  readonly rewrite: Rewrite;
  /** The inputs of the rewritten model. */
  readonly inputs: readonly TensorInfo[];
  /** Whether outputs are gradients, which the source does not have. */
  readonly isGradient?: boolean;
}

/** A prepared rewrite with the pieces of its file. */
export interface LaidOut extends Prepared {
  readonly chunks: readonly Chunk[];
}

/** Prepares a rewrite. Asks only for types that a part needs and the file does not state. */
export async function prepareRewrite(
  model: OnnxModel,
  request: RewriteRequest,
  answers: ModelAnswers,
): Promise<Prepared> {
  const cut = cutToRequest(model, request);
  if (!request.tidy) checkNodeNames(cut);
  const typeOf = await lookUpTypes(neededTypes(cut, request), request.inputSizes, answers);
  const started = startRewrite(cut, (value) => inputType(value, typeOf), request.tidy);
  checkInputSizes(request.inputSizes, [...model.inputs, ...describeInputs(started)]);
  const opened = request.batch === 'dynamic' ? await answers.openBatch(started, request.inputSizes) : started;
  const tokens = await lookUpTokens(started, request, typeOf, answers);
  const rewrite = withRequestedParts(opened, request, { typeOf, tokens }, request.outputs.length);
  return { model, request, typeOf, tokens, rewrite, inputs: describeInputs(rewrite) };
}

/**
 * The same request on the whole graph: nothing is cut away, so that values can be compared. The tensors that the request
 * feeds are additional outputs here, after the requested ones.
 */
export function prepareWhole({
  model,
  request,
  typeOf,
  tokens,
  rewrite: { cut, computedInputs },
}: Prepared): Prepared {
  const { graph } = cut;
  const fed = interiorInputs(cut).map((value) => ({
    request: value.name,
    key: value.name,
    value,
    why: 'input',
  }));
  const whole = wholeCut(graph, [...cut.outputs, ...fed]);
  // Tidy even if the request is not: the dropped part may hold names or an order that ONNX Runtime refuses.
  const started = startRewrite(whole, (value) => inputType(value, typeOf), true);
  const named = request.outputs.length;
  const rewrite = withRequestedParts(started, request, { typeOf, tokens }, named, [...computedInputs][0]);
  return { model, request, typeOf, tokens, rewrite, inputs: describeInputs(rewrite) };
}

/** Names → the part of the graph that they need. */
function cutToRequest(model: OnnxModel, request: RewriteRequest): Cut {
  const { graph } = modelInternals.of(model);
  const keys = request.outputs.map((output) => output.key);
  const outputs = resolveNames(
    graph,
    request.outputs.map((output) => output.request),
  ).map(({ request: name, value, why }, i): CutOutput => ({ request: name, value, why, key: keys[i]! }));
  const inputs = request.inputs && readCutInputs(resolveNames(graph, request.inputs));
  return cutGraph(graph, { outputs, inputs, allowNonTensor: request.allowNonTensor });
}

/** The tensors to feed. A weight is refused, because its value is in the file. */
function readCutInputs(resolved: readonly { readonly request: string; readonly value: Value }[]): Value[] {
  for (const { request, value } of resolved) {
    if (!value.initializer) continue;
    throw new TapirError(
      'INPUT_MISMATCH',
      `"${request}" is a weight (tensor "${value.name}"): its value is in the file; only graph inputs and computed tensors can be "inputs"`,
      { details: { input: request, expected: 'a graph input or a computed tensor', actual: 'a weight' } },
    );
  }
  return resolved.map(({ value }) => value);
}

function neededTypes(cut: Cut, { partsOf, fillTypes }: RewriteRequest): Value[] {
  const outputs = cut.outputs.filter(({ key }) => fillTypes || !isPlain(partsOf(key)));
  return [...interiorInputs(cut), ...outputs.map((output) => output.value)];
}

async function lookUpTypes(
  values: readonly Value[],
  given: CheckedSizes,
  answers: ModelAnswers,
): Promise<TypeOf> {
  const unknown = values.filter((value) => !typeFrom(value, undefined)?.dims);
  const inferred = await answers.inferTypes(unknown, given);
  return (value) => typeFrom(value, inferred.get(value));
}

/** Measures the tokens of outputs that become maps or means of patches, where their number is open. */
async function lookUpTokens(
  rewrite: Rewrite,
  { partsOf, inputSizes }: RewriteRequest,
  typeOf: TypeOf,
  answers: ModelAnswers,
): Promise<Prepared['tokens']> {
  const tokens = new Map<Value, MeasuredTokens>();
  for (const { key, value } of rewrite.outputs) {
    const { tokensToMap, pool } = partsOf(key);
    const { dims = null } = typeOf(value) ?? {};
    const isOpen = dims === null || (dims.length === 3 && typeof dims[1] !== 'number');
    if (!isOpen || !(tokensToMap || pool === 'mean-tokens') || tokens.has(value)) continue;
    // oxlint-disable-next-line no-await-in-loop -- one question at a time
    const measured = await answers.measureTokens(rewrite, value, inputSizes);
    if (measured) tokens.set(value, measured);
  }
  return tokens;
}

function typeFrom(value: Value, inferred: InferredType | undefined): TensorType | undefined {
  const { dtype, dims } = describeOutput(value, inferred);
  const elemType = dtype === null ? undefined : elementTypeNumber(dtype);
  return elemType === undefined ? undefined : { elemType, dims };
}

function inputType(value: Value, typeOf: TypeOf): TensorType {
  const type = typeOf(value);
  if (type) return type;
  throw new TapirError(
    'INPUT_MISMATCH',
    `"${value.name}" cannot be an input: it is not a tensor, or its type is unknown; choose another tensor as "inputs"`,
    {
      details: { input: value.name, expected: 'a tensor', actual: describeValue(value).dtype ?? 'unknown' },
    },
  );
}
