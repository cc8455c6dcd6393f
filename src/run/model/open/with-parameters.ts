/** Replacing single parameters of a model by name, a classifier by one of another size included. */
import { TapirError } from '../../../base/errors.js';
import type { Graph, Value } from '../../../onnx/graph/graph.js';
import { findParameters, type ParameterUse } from '../../../onnx/graph/parameters/find-parameters.js';
import { torchDims } from '../../../onnx/graph/parameters/site.js';
import type { Chunk } from '../../../onnx/file/wire/chunk.js';
import { elementTypeName, GRAPH } from '../../../onnx/file/wire/schema.js';
import type { Field } from '../../../onnx/file/wire/wire.js';
import { writeValue } from '../../../onnx/file/wire/write-model.js';
import { permute } from '../../../onnx/tensor/permute.js';
import { readTensor, type Tensor, type TensorLike } from '../../../onnx/tensor/tensor.js';
import { encodeValues, fitsType } from './encode-values.js';
import type { ModelState } from './model-state.js';
import { parametersWithCopies } from './transposed-copies.js';
import { countReads, replaceTensors, type SiteEdit } from './replace-tensors.js';

/** Replaces parameters; see {@link OnnxModel.withParameters}. */
export async function replaceParameters(
  model: ModelState,
  tensors: Readonly<Record<string, TensorLike>>,
): Promise<Chunk[] | undefined> {
  const { uses: listed, folded } = findParameters(model.graph);
  // A copy of a parameter changes with it, unless it is given under the name that it is listed by.
  const isGiven = (name: string): boolean => Object.hasOwn(tensors, name);
  const { parameters } = await parametersWithCopies(model, isGiven, isGiven);
  const edits: SiteEdit[] = [];
  const restated = new Map<Field, readonly Chunk[]>();
  for (const [name, given] of Object.entries(tensors)) {
    const tensor = readTensor(name, given);
    const named = parameters.uses.filter(({ names }) => names[0] === name);
    const ofName = named.length > 0 ? named : listed.filter(({ names }) => names[0] === name);
    const layer = folded.find((one) => name === `${one.layer}.weight` || name === `${one.layer}.bias`);
    if (layer && ofName.length === 0) throw isFolded(name, layer.layer);
    if (ofName.length === 0) throw misfit(name, undefined);
    for (const use of ofName) edits.push(editOf(model.graph, name, tensor, use, restated));
  }
  return replaceTensors(model, edits, [], restated);
}

function editOf(
  graph: Graph,
  name: string,
  tensor: Tensor,
  use: ParameterUse,
  restated: Map<Field, readonly Chunk[]>,
): SiteEdit {
  const { site, perm } = use;
  const { elemType, dims } = site.initializer.initializer!;
  if (!fitsType(tensor.dtype, elemType))
    throw misfit(name, { expected: elementTypeName(elemType) ?? '?', actual: tensor.dtype });
  const bytes = encodeValues(tensor, elemType, perm);
  const given = perm ? permute(tensor, perm).dims : tensor.dims;
  if (given.length === dims.length && given.every((size, axis) => size === dims[axis]))
    return { site, name, bytes };
  const expected = `[${torchDims(site.initializer, perm).join(', ')}]`;
  const classes = countReads(graph, site.initializer) === 1 ? classAxis(use, given) : undefined;
  if (classes === undefined || !restateOutput(graph, use, classes, restated))
    throw misfit(name, { expected, actual: `[${tensor.dims.join(', ')}]` });
  return { site, name, bytes, dims: given };
}

/** The new number of output features, if only that axis of a weight or a bias changes. */
function classAxis({ node, site, perm }: ParameterUse, given: readonly number[]): number | undefined {
  const { dims } = site.initializer.initializer!;
  if (!['Gemm', 'MatMul', 'Add'].includes(node.opType) || given.length !== dims.length) return undefined;
  const isRow = dims.length === 1 || perm !== null || (node.opType === 'MatMul' && dims.length === 2);
  const axis = isRow ? dims.length - 1 : 0;
  return given.every((size, i) => i === axis || size === dims[i]) ? given[axis] : undefined;
}

/** States a new size for the outputs of the graph that a classifier computes. Whether it computes nothing else. */
function restateOutput(
  { isOutput, model }: Graph,
  { node }: ParameterUse,
  classes: number,
  restated: Map<Field, readonly Chunk[]>,
): boolean {
  let value: Value | undefined = node.outputs[0];
  for (;;) {
    const [info, type] = [value?.info, value?.type];
    if (!value || type?.kind === 'sequence') return false;
    if (info && type?.kind === 'tensor' && type.dims) {
      const number = model.graph.outputs.includes(info) ? GRAPH.output : GRAPH.valueInfo;
      const dims = type.dims.with(-1, classes);
      restated.set(info.field, writeValue(number, { name: value.name, elemType: type.elemType, dims }));
    }
    if (isOutput(value)) return value.uses.length === 0;
    const [next, ...others] = value.uses;
    if (
      !next ||
      others.length > 0 ||
      !['Add', 'Identity', 'Softmax', 'LogSoftmax', 'Sigmoid'].includes(next.opType)
    )
      return false;
    value = next.outputs[0];
  }
}

function isFolded(parameter: string, layer: string): TapirError<'PARAMETER_FOLDED'> {
  return new TapirError(
    'PARAMETER_FOLDED',
    `"${parameter}" cannot be replaced alone: the file holds it with a BatchNorm folded into it; load a whole state dict (loadStateDict), or export the model without folding`,
    { details: { parameter, layer } },
  );
}

function misfit(
  name: string,
  shapes: { readonly expected: string; readonly actual: string } | undefined,
): TapirError<'STATE_MISMATCH'> {
  const reason = shapes
    ? `"${name}" is ${shapes.actual} and must be ${shapes.expected}; only the classes of a classifier whose result is an output of the graph may change`
    : `the model has no parameter "${name}"; model.namedParameters() lists them`;
  const misshapen = shapes ? [{ key: name, ...shapes }] : [];
  return new TapirError('STATE_MISMATCH', reason, {
    details: { missing: [], unexpected: shapes ? [] : [name], misshapen },
  });
}
