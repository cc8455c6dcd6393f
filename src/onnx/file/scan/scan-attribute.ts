/** The index of a node's attribute: what rewrites and listings need to know of it. */
import { scanSparseTensor, scanTensor, type ScannedTensor } from './scan-value.js';
import { ATTRIBUTE } from '../wire/schema.js';
import { MAX_RANK, type Field, type WireReader } from '../wire/wire.js';

export interface ScannedAttribute {
  readonly name: string;
  readonly tensors: readonly ScannedTensor[];
  /** Its integers, if it is a list of at most {@link MAX_RANK}: the axes of a Transpose, for example. */
  readonly integers: readonly number[] | undefined;
  /** Its integer, if it is one. */
  readonly integer: number | undefined;
}

const NO_TENSORS: readonly ScannedTensor[] = [];

/** Scans an attribute. Calls `onGraph` for each graph that it holds, in file order. */
export function scanAttribute(
  reader: WireReader,
  field: Field,
  onGraph: (graph: Field) => void,
): ScannedAttribute {
  let name = '';
  let isGraphSeen = false;
  let tensors: ScannedTensor[] | undefined;
  const integers: number[] = [];
  let isList = false;
  let isShort = true;
  let integer: number | undefined;
  reader.readBody(field, (inner) => {
    if (inner.number === ATTRIBUTE.name) name = reader.readName(inner);
    else if (inner.number === ATTRIBUTE.graph) {
      if (isGraphSeen) throw reader.malformed(inner.start, 'an attribute holds its graph in several pieces');
      isGraphSeen = true;
      onGraph(inner);
    } else if (inner.number === ATTRIBUTE.graphs) onGraph(inner);
    else if (inner.number === ATTRIBUTE.tensor || inner.number === ATTRIBUTE.tensors)
      (tensors ??= []).push(scanTensor(reader, inner));
    else if (inner.number === ATTRIBUTE.sparseTensor || inner.number === ATTRIBUTE.sparseTensors)
      (tensors ??= []).push(scanSparseTensor(reader, inner));
    else if (inner.number === ATTRIBUTE.int) integer = reader.readInt(inner);
    else if (inner.number === ATTRIBUTE.ints && isShort) {
      isList = true;
      isShort = reader.readInts(inner, integers, MAX_RANK);
    }
  });
  return {
    name,
    tensors: tensors ?? NO_TENSORS,
    integers: isList && isShort ? integers : undefined,
    integer,
  };
}
