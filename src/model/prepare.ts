/** Model + request + options → a rewrite: names are resolved, types looked up, parts put in place. */
import { TapirError } from '../base/errors.js';
import type { Value } from '../graph/graph.js';
import { resolveNames } from '../graph/names/resolve-names.js';
import { elementTypeNumber } from '../onnx/schema.js';
import { isPlain, withFeatureParts } from '../graph/rewrite/feature-parts.js';
import { withImageInput } from '../graph/rewrite/image-input.js';
import { cutGraph, interiorInputs, type Cut, type CutOutput } from '../graph/rewrite/prune.js';
import { checkNodeNames } from '../graph/rewrite/tidy.js';
import { startRewrite, type Rewrite, type RewriteOutput } from '../graph/rewrite/rewrite.js';
import type { TensorType } from '../onnx/write-model.js';
import { describeOutput, imageSize, provenLayout } from './feature-info.js';
import { inferTypes, type InferredType } from './oracle/infer-types.js';
import { stateOf, type OnnxModel } from './open-model.js';
import type { ReturnNode } from './return-nodes.js';
import type { RewriteSetup } from './rewrite-options.js';
import { describeValue } from './value-info.js';
import { withVerifiedBatch } from './oracle/verified-batch.js';

/** A checked request. */
export interface RewriteRequest extends RewriteSetup {
  readonly outputs: readonly ReturnNode[];
  readonly allowNonTensor: boolean;
  /** State dtype and dims of every output in the written file. */
  readonly fillTypes: boolean;
  /** Put the written graph in order. */
  readonly tidy: boolean;
}

/** A rewrite, and what it was made from. */
export interface Prepared {
  readonly model: OnnxModel;
  readonly request: RewriteRequest;
  readonly rewrite: Rewrite;
}

/** The types of values: what the file states, else what ONNX Runtime reports. */
type TypeOf = (value: Value) => TensorType | undefined;

/** Prepares a rewrite. Asks ONNX Runtime for types only where a part needs one that the file does not state. */
export async function prepareRewrite(model: OnnxModel, request: RewriteRequest): Promise<Prepared> {
  const cut = cutModel(model, request);
  if (!request.tidy) checkNodeNames(cut);
  const typeOf = await lookUpTypes(model, neededTypes(cut, request));
  const started = startRewrite(cut, (value) => inputType(value, typeOf), request.tidy);
  const rewrite = request.batch === 'dynamic' ? await withVerifiedBatch(model, started) : started;
  return { model, request, rewrite: withRequestedParts(rewrite, request, typeOf) };
}

/**
 * The same request on the whole graph: nothing is cut away, so that values can be compared. Tensors that the request
 * feeds are outputs here, behind the requested ones.
 */
export async function prepareWhole({
  model,
  request,
  rewrite: { cut, computedInputs },
}: Prepared): Promise<Prepared> {
  const { graph } = cut;
  const fed = interiorInputs(cut).map((value) => ({
    request: value.name,
    key: value.name,
    value,
    why: 'input',
  }));
  const whole: Cut = {
    graph,
    outputs: [...cut.outputs, ...fed],
    inputs: graph.inputs,
    unneeded: [],
    nodes: new Set(graph.nodes),
    values: new Set(graph.values.values()),
    functions: new Set(graph.model.functions),
  };
  const typeOf = await lookUpTypes(model, neededTypes(cut, request));
  // In order, whatever was asked for: the dropped part may hold what ONNX Runtime refuses.
  const started = startRewrite(whole, (value) => inputType(value, typeOf), true);
  return { model, request, rewrite: withRequestedParts(started, request, typeOf, [...computedInputs][0]) };
}

/** Names → the part of the graph that they need. */
function cutModel(model: OnnxModel, request: RewriteRequest): Cut {
  const { graph } = stateOf(model);
  const keys = request.outputs.map((output) => output.key);
  const outputs = resolveNames(
    graph,
    request.outputs.map((output) => output.request),
  ).map(({ request: name, value, why }, i): CutOutput => ({ request: name, value, why, key: keys[i]! }));
  const inputs = request.inputs && readCutInputs(resolveNames(graph, request.inputs));
  return cutGraph(graph, { outputs, inputs, allowNonTensor: request.allowNonTensor });
}

/** `imageInput` is the one that pixels go to, if that is known. */
function withRequestedParts(
  cut: Rewrite,
  request: RewriteRequest,
  typeOf: TypeOf,
  imageInput?: Value,
): Rewrite {
  let rewrite = request.image ? withImageInput(cut, request.image, imageInput) : cut;
  // Outputs that the request does not name are there only to be compared.
  const named = rewrite.outputs.slice(0, request.outputs.length);
  for (const output of named) rewrite = withParts(rewrite, output, request, typeOf);
  return request.fillTypes ? withTypes(rewrite, typeOf) : rewrite;
}

/** A weight cannot be fed: it has its value. */
function readCutInputs(resolved: readonly { readonly request: string; readonly value: Value }[]): Value[] {
  for (const { request, value } of resolved) {
    if (!value.initializer || value.producer) continue;
    throw new TapirError(
      'INPUT_MISMATCH',
      `"${request}" is a weight (tensor "${value.name}"), which has its value in the file; only computed tensors can be inputs`,
      { details: { input: request, expected: 'a graph input or a computed tensor', actual: 'a weight' } },
    );
  }
  return resolved.map(({ value }) => value);
}

function neededTypes(cut: Cut, { partsOf, fillTypes }: RewriteRequest): Value[] {
  const outputs = cut.outputs.filter(({ key }) => fillTypes || !isPlain(partsOf(key)));
  return [...interiorInputs(cut), ...outputs.map((output) => output.value)];
}

async function lookUpTypes(model: OnnxModel, values: readonly Value[]): Promise<TypeOf> {
  const unknown = values.filter((value) => !typeFrom(value, undefined)?.dims);
  const inferred = await inferTypes(model, unknown, true);
  return (value) => typeFrom(value, inferred.get(value));
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
    `"${value.name}" is no tensor of a known type, so it cannot be an input`,
    {
      details: { input: value.name, expected: 'a tensor', actual: describeValue(value).dtype ?? 'unknown' },
    },
  );
}

function withParts(
  rewrite: Rewrite,
  output: RewriteOutput,
  request: RewriteRequest,
  typeOf: TypeOf,
): Rewrite {
  const parts = request.partsOf(output.key);
  if (isPlain(parts)) return rewrite;
  const { elemType = 0, dims } = rewrite.restated.get(output.value) ?? typeOf(output.value) ?? {};
  const { graph } = rewrite.cut;
  return withFeatureParts(rewrite, output, parts, {
    elemType,
    dims: dims ?? [],
    layout: dims ? provenLayout(graph, output.value, dims) : null,
    imageSize: imageSize(graph),
  });
}

function withTypes(rewrite: Rewrite, typeOf: TypeOf): Rewrite {
  return {
    ...rewrite,
    outputs: rewrite.outputs.map((output) => ({
      ...output,
      type: output.type ?? rewrite.restated.get(output.value) ?? typeOf(output.value),
    })),
  };
}
