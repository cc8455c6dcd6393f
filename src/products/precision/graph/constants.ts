/** Constants of a file, as nodes read them. */
import type { Attribute } from '../../../onnx/file/scan/attributes.js';
import type { ScannedTensor } from '../../../onnx/file/scan/scan-value.js';
import { ELEMENT_TYPE } from '../../../onnx/file/wire/schema.js';
import type { Node, Value } from '../../../onnx/graph/graph.js';
import type { Cut } from '../../../onnx/graph/rewrite/prune.js';

/** Whether a value's elements are in the file: an initializer, or the tensor of a Constant. */
export function isConstant({ initializer, producer }: Value): boolean {
  return producer ? producer.opType === 'Constant' || producer.opType === 'ConstantOfShape' : !!initializer;
}

/** The tensor of a constant as the file holds it; undefined for a constant that is a plain number or list of an attribute. */
export function constantTensor({ initializer, producer }: Value): ScannedTensor | undefined {
  const tensor = producer ? producer.scanned.tensors[0]?.tensor : initializer;
  return tensor?.parts ? undefined : tensor;
}

/** The float32 constants of a cut. */
export function listFloats({ values }: Cut): Value[] {
  return [...values].filter(
    (value) => isConstant(value) && constantTensor(value)?.elemType === ELEMENT_TYPE.float32,
  );
}

/** The attributes of a node. */
export type AttributesOf = (node: Node) => ReadonlyMap<string, Attribute>;

/** A float32 constant that a layer reads. */
export interface LayerConstant {
  readonly value: Value;
  readonly tensor: ScannedTensor;
  /** Whether the file holds a matrix whose Transpose the layer reads. */
  readonly isTransposed: boolean;
}

/** The constant behind a value: itself, or what an Identity or a Transpose of two axes reads. */
export function findConstant(value: Value, attributesOf: AttributesOf): LayerConstant | undefined {
  const own = isConstant(value) ? constantTensor(value) : undefined;
  if (own) return { value, tensor: own, isTransposed: false };
  const { producer } = value;
  if (producer?.domain !== '') return undefined;
  // Exporters write equal constants once, with an Identity for each other name.
  if (producer.opType === 'Identity' && producer.inputs[0]) {
    const same = findConstant(producer.inputs[0], attributesOf);
    return same && { ...same, value };
  }
  const source = producer.opType === 'Transpose' ? producer.inputs[0] : undefined;
  const behind = source && isConstant(source) ? constantTensor(source) : undefined;
  if (!behind || behind.dims.length !== 2) return undefined;
  const isTransposed = (attributesOf(producer).get('perm')?.ints[0] ?? 1) === 1;
  return { value, tensor: behind, isTransposed };
}
