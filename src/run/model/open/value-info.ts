/** Tensors as the public API describes them: onnxruntime's names of dtypes, and dims with symbolic sizes. */
import type { Value } from '../../../onnx/graph/graph.js';
import { elementTypeName } from '../../../onnx/file/wire/schema.js';
import type { TensorInfo } from '../../../onnx/tensor/tensor-info.js';
import { keptInputs, type Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { TensorType } from '../../../onnx/file/wire/write-model.js';

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
