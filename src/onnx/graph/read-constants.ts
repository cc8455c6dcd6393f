/** Attributes and small constants of a graph, read from the file. */
import { oncePer } from '../../base/once-per.js';
import type { Node, Value } from './graph.js';
import { readAttributes, type Attribute } from '../file/scan/attributes.js';
import type { WireReader } from '../file/wire/wire.js';
import type { ScannedTensor } from '../file/scan/scan-value.js';
import { ELEMENT_TYPE, TENSOR } from '../file/wire/schema.js';

export interface Constants {
  readonly attributesOf: (node: Node) => ReadonlyMap<string, Attribute>;
  /** The elements of an integer initializer or Constant; Identity nodes are followed. undefined for all other values. */
  readonly integersOf: (value: Value) => readonly number[] | undefined;
}

/** Reads each node once. `reader` reads the open source. */
export function readConstants(reader: WireReader): Constants {
  const attributesOf = oncePer((node: Node) => readAttributes(reader, node.scanned));
  const integersOf = (value: Value): readonly number[] | undefined => {
    let source = value;
    // In a damaged file they can form a circle.
    const passed = new Set<Value>();
    while (source.producer?.opType === 'Identity' && source.producer.inputs[0] && !passed.has(source)) {
      passed.add(source);
      [source] = source.producer.inputs as [Value];
    }
    if (source.initializer) return readIntegers(reader, source.initializer);
    if (source.producer?.opType !== 'Constant') return undefined;
    const constant = attributesOf(source.producer);
    const int = constant.get('value_int')?.int;
    return int === undefined ? constant.get('value_ints')?.ints : [int];
  };
  return { attributesOf, integersOf };
}

/** Lists of axes and sizes are never longer. */
const MAX_ELEMENTS = 4096;

/** Reads an int64, int32 or bool tensor in the model file; a bool is 0 or 1. Undefined for others: of another type, too long, or in another file. */
export function readIntegers(reader: WireReader, tensor: ScannedTensor): number[] | undefined {
  const count = tensor.dims.reduce((product, size) => product * size, 1);
  if (!ELEMENT_BYTES.has(tensor.elemType)) return undefined;
  if (tensor.external !== undefined || !(count >= 0 && count <= MAX_ELEMENTS)) return undefined;
  const elements: number[] = [];
  let isShort = true;
  reader.readBody(tensor.field, (field) => {
    if (field.number === TENSOR.int64Data || field.number === TENSOR.int32Data)
      isShort &&= reader.readInts(field, elements, MAX_ELEMENTS);
    else if (field.number === TENSOR.rawData)
      elements.push(...decodeRaw(reader.readBytes(field), tensor.elemType));
  });
  return isShort && elements.length === count ? elements : undefined;
}

/** The types that are read, with the bytes of an element. */
const ELEMENT_BYTES: ReadonlyMap<number, number> = new Map([
  [ELEMENT_TYPE.int64, 8],
  [ELEMENT_TYPE.int32, 4],
  [ELEMENT_TYPE.bool, 1],
]);

/** Little-endian; numbers beyond 2^53 are rounded (INT64_MAX, which means "to the end"). */
function decodeRaw(bytes: Uint8Array, elemType: number): number[] {
  const size = ELEMENT_BYTES.get(elemType)!;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const read = (at: number): number =>
    size === 1
      ? view.getUint8(at)
      : size === 4
        ? view.getInt32(at, true)
        : Number(view.getBigInt64(at, true));
  return Array.from({ length: Math.min(Math.floor(bytes.byteLength / size), MAX_ELEMENTS) }, (_, i) =>
    read(i * size),
  );
}
