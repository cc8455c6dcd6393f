/** Small ONNX graphs over blocks of rows, in a short notation. */
import { ELEMENT_TYPE, type Dim } from '../../onnx/file/wire/schema.js';
import {
  writeModel,
  type NewAttribute,
  type NewExternalTensor,
  type NewValue,
} from '../../onnx/file/wire/write-model.js';
import type { DType } from '../../onnx/tensor/tensor.js';

/** The arrays that hold the elements of a tensor. */
interface Arrays {
  readonly float32: Float32Array;
  readonly float64: Float64Array;
  readonly int64: BigInt64Array;
}

/** The type of a tensor: the type of its elements, then its dims. */
export type TensorForm = readonly [dtype: keyof Arrays, ...dims: Dim[]];

/** A node: its output or outputs, its operator, its inputs, and its attributes. */
export type Step = readonly [
  output: string | readonly string[],
  opType: string,
  inputs: readonly string[],
  attributes?: Readonly<Record<string, NewAttribute>>,
];

/** A constant tensor in a file below the folder of the session. */
export interface StoredConstant extends Pick<NewExternalTensor, 'dims' | 'external'> {
  readonly dtype: DType;
}

/** A constant tensor: integers, doubles and floats with their dims, or any numbers in a file. */
export type Constant =
  | readonly number[]
  | { readonly dims: readonly number[]; readonly data: Arrays[keyof Arrays] }
  | StoredConstant;

/** A graph that a {@link RowSession} runs. `Returned` has the elements of each output. */
export interface RowGraph<Returned extends object = object> {
  readonly inputs: Readonly<Record<string, TensorForm>>;
  readonly constants?: Readonly<Record<string, Constant>>;
  /** In an order in which each node follows the ones that it reads. */
  readonly steps: readonly Step[];
  readonly outputs: { readonly [Name in keyof Returned]: TensorForm };
}

/** The bytes of the ONNX model. */
export function encodeRowGraph(graph: RowGraph): Uint8Array<ArrayBuffer> {
  const { inputs, constants = {}, steps, outputs } = graph;
  return writeModel({
    irVersion: 8,
    opset: 13,
    name: 'rows',
    nodes: steps.map(([output, opType, read, attributes = {}]) => ({
      name: [output].flat().join(),
      opType,
      inputs: read,
      outputs: [output].flat(),
      attributes,
    })),
    tensors: Object.entries(constants).map(([name, constant]) => {
      if ('external' in constant) {
        const { dtype, dims, external } = constant;
        return { name, elemType: ELEMENT_TYPE[dtype], dims, external };
      }
      const { dims, data } =
        'dims' in constant
          ? constant
          : { dims: [constant.length], data: BigInt64Array.from(constant, BigInt) };
      return {
        name,
        elemType: ELEMENT_TYPE[dtypeOf(data)],
        dims,
        data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength),
      };
    }),
    inputs: valuesOf(inputs),
    outputs: valuesOf(outputs),
  });
}

function dtypeOf(data: Arrays[keyof Arrays]): keyof Arrays {
  if (data instanceof BigInt64Array) return 'int64';
  return data instanceof Float32Array ? 'float32' : 'float64';
}

function valuesOf(forms: RowGraph['inputs'] | RowGraph['outputs']): NewValue[] {
  return (Object.entries(forms) as [string, TensorForm][]).map(([name, [dtype, ...dims]]) => ({
    name,
    elemType: ELEMENT_TYPE[dtype],
    dims,
  }));
}
