/** Constants that layers read, as they are or transposed. */
import type { Attribute } from '../../onnx/scan/attributes.js';
import type { ScannedTensor } from '../../onnx/scan/scan-value.js';
import type { Node, Value } from '../graph.js';
import { isConstant } from '../precision/choose-nodes.js';
import { constantTensor } from '../precision/with-float16.js';

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
