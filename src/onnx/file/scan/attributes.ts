/** The attributes of a node, read when a rewrite needs them; the index does not keep them. */
import type { ScannedNode } from './scan-graph.js';
import { scanTensor, type ScannedTensor } from './scan-value.js';
import { ATTRIBUTE, NODE } from '../wire/schema.js';
import { MAX_RANK, type Field, type WireReader } from '../wire/wire.js';

/** The value of an attribute, in the forms that rewrites read. Long lists and texts are left out. */
export interface Attribute {
  readonly int: number | undefined;
  readonly float: number | undefined;
  readonly ints: readonly number[];
  readonly text: string | undefined;
  readonly tensor: ScannedTensor | undefined;
}

/** Reads the attributes of a node by name. */
export function readAttributes(reader: WireReader, node: ScannedNode): ReadonlyMap<string, Attribute> {
  const attributes = new Map<string, Attribute>();
  reader.readBody(node.field, (field) => {
    if (field.number !== NODE.attribute) return;
    let name = '';
    let int: number | undefined;
    let float: number | undefined;
    let text: string | undefined;
    let tensor: ScannedTensor | undefined;
    const ints: number[] = [];
    reader.readBody(field, (inner) => {
      if (inner.number === ATTRIBUTE.name) name = reader.readName(inner);
      else if (inner.number === ATTRIBUTE.int) int = reader.readInt(inner);
      else if (inner.number === ATTRIBUTE.float) float = reader.readFloat(inner);
      else if (inner.number === ATTRIBUTE.ints) reader.readInts(inner, ints, MAX_RANK);
      else if (inner.number === ATTRIBUTE.text && isShort(inner)) text = reader.readName(inner);
      else if (inner.number === ATTRIBUTE.tensor) tensor = scanTensor(reader, inner);
    });
    attributes.set(name, { int, float, ints, text, tensor });
  });
  return attributes;
}

/** Texts of any length are legal (a compiled engine, for example). */
function isShort({ bodyStart, end }: Field): boolean {
  return end - bodyStart <= MAX_TEXT_BYTES;
}

/** Enough for the equation of an Einsum. */
const MAX_TEXT_BYTES = 4096;
