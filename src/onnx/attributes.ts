/** The attributes of a node, read when a rewrite needs them: the index leaves them in the file. */
import type { ScannedNode } from './scan-graph.js';
import { scanTensor, type ScannedTensor } from './scan-value.js';
import { ATTRIBUTE, NODE } from './schema.js';
import type { WireReader } from './wire.js';

/** The value of an attribute, as far as rewrites read them. */
export interface Attribute {
  readonly int: number | undefined;
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
    let text: string | undefined;
    let tensor: ScannedTensor | undefined;
    const ints: number[] = [];
    reader.readBody(field, (inner) => {
      if (inner.number === ATTRIBUTE.name) name = reader.readText(inner);
      else if (inner.number === ATTRIBUTE.int) int = reader.readInt(inner);
      else if (inner.number === ATTRIBUTE.ints) reader.readInts(inner, ints);
      else if (inner.number === ATTRIBUTE.text) text = reader.readText(inner);
      else if (inner.number === ATTRIBUTE.tensor) tensor = scanTensor(reader, inner);
    });
    attributes.set(name, { int, ints, text, tensor });
  });
  return attributes;
}
