/** Values that are no tensors: sequences, maps, optionals. */
import type { Value } from './graph.js';
import { operatorOf } from './operators/operators.js';

/** The type of a value that is not a tensor; undefined for a tensor. */
export function nonTensorType({ type, producer }: Value): string | undefined {
  if (type) return type.kind === 'tensor' || type.kind === 'sparse tensor' ? undefined : type.kind;
  if (producer && operatorOf(producer)?.types[0] === 'sequence') return 'sequence';
  // onnxruntime-node can return an optional tensor, but not an optional sequence.
  if (producer?.opType === 'Optional' && producer.inputs[0]) return nonTensorType(producer.inputs[0]);
  return producer?.opType === 'ZipMap' ? 'sequence of maps' : undefined;
}
