/** How the public API describes tensors: onnxruntime's dtype names, dims with symbolic sizes. */
import type { Value } from '../graph/graph.js';
import { elementTypeName } from '../onnx/schema.js';
import type { Dim } from '../onnx/scan-value.js';
import { keptInputs, type Rewrite, type TensorType } from '../graph/rewrite/rewrite.js';

/** A tensor of a model. */
export interface TensorInfo {
  readonly name: string;
  /** Element type in onnxruntime's spelling (`float32`, `int64`, …), or null where the file does not state it. */
  readonly dtype: string | null;
  /** Sizes: a number, a symbolic name, or null for an open one; null altogether if the file does not state them. */
  readonly dims: readonly Dim[] | null;
}

/** Describes a value by what the file states. */
export function describeValue(value: Value): TensorInfo {
  const { name, type } = value;
  if (type?.kind !== 'tensor') return { name, dtype: type?.kind ?? null, dims: null };
  return describeType(name, { elemType: type.elemType, dims: type.dims ?? null });
}

/** Describes a tensor by its type. */
export function describeType(name: string, { elemType, dims }: TensorType): TensorInfo {
  return { name, dtype: elementTypeName(elemType) ?? null, dims };
}

/** The inputs that a rewritten model must be fed. */
export function describeInputs(rewrite: Rewrite): TensorInfo[] {
  const added = rewrite.inputs.map((input) => describeType(input.name, input));
  const kept = keptInputs(rewrite).map((value) => {
    const type = rewrite.restated.get(value);
    return type ? describeType(value.name, type) : describeValue(value);
  });
  return [...added, ...kept];
}
