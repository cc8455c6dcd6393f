/** Attributes and small constants of a graph, read from the file. */
import type { Node, Value } from './graph.js';
import { readAttributes, type Attribute } from '../onnx/scan/attributes.js';
import { readIntegers } from '../onnx/tensor-integers.js';
import type { WireReader } from '../onnx/wire/wire.js';

export interface Constants {
  readonly attributesOf: (node: Node) => ReadonlyMap<string, Attribute>;
  /** The elements of an integer initializer or Constant; Identity nodes are followed. undefined for all other values. */
  readonly integersOf: (value: Value) => readonly number[] | undefined;
}

/** Reads each node once. `reader` reads the open source. */
export function readConstants(reader: WireReader): Constants {
  const attributes = new Map<Node, ReadonlyMap<string, Attribute>>();
  const attributesOf = (node: Node): ReadonlyMap<string, Attribute> => {
    const read = attributes.get(node) ?? readAttributes(reader, node.scanned);
    attributes.set(node, read);
    return read;
  };
  const integersOf = (value: Value): readonly number[] | undefined => {
    let source = value;
    while (source.producer?.opType === 'Identity' && source.producer.inputs[0])
      [source] = source.producer.inputs as [Value];
    if (source.initializer) return readIntegers(reader, source.initializer);
    if (source.producer?.opType !== 'Constant') return undefined;
    const constant = attributesOf(source.producer);
    const int = constant.get('value_int')?.int;
    return int === undefined ? constant.get('value_ints')?.ints : [int];
  };
  return { attributesOf, integersOf };
}
