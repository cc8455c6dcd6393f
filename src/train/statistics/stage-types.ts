/** The types of tensors between stages. */
import type { Value } from '../../graph/graph.js';
import type { OnnxModel } from '../../model/open/open-model.js';
import { ModelOracle } from '../../model/oracle/model-oracle.js';
import { elementTypeNumber } from '../../onnx/wire/schema.js';
import type { TensorType } from '../../onnx/wire/write-model.js';

export type TypeOf = (value: Value) => TensorType;

/** The types of tensors between stages. Their stated shape stays: without it, onnxruntime chooses other layouts. */
export async function readStageTypes(model: OnnxModel, values: ReadonlySet<Value>): Promise<TypeOf> {
  await using oracle = new ModelOracle(model);
  const describe = await oracle.describeValues([...values]);
  return (value) => {
    const { dtype, dims } = describe(value);
    return { elemType: elementTypeNumber(dtype ?? '') ?? 0, dims };
  };
}
