/** What the file says about layers: their constants and attributes. */
import type { AttributesOf, LayerConstant } from '../graph/constants.js';
import type { FloatConstant } from '../graph/quantize/roundings.js';
import type { Rewrite } from '../../../onnx/graph/rewrite/rewrite.js';
import type { ModelState } from '../../../run/model/open/model-state.js';
import { readInitializerBytes } from '../../../run/model/open/read-initializer.js';
import { readAttributes, type Attribute } from '../../../onnx/file/scan/attributes.js';
import { WireReader } from '../../../onnx/file/wire/wire.js';

/** Reads a float32 constant. Throws as {@link readInitializerBytes}. */
export async function readConstant(
  state: ModelState,
  { tensor, isTransposed }: Pick<LayerConstant, 'tensor' | 'isTransposed'>,
): Promise<FloatConstant> {
  const { buffer } = await readInitializerBytes(state, tensor);
  const data = new Float32Array(buffer);
  if (!isTransposed) return { data, dims: tensor.dims };
  const [rows, columns] = tensor.dims as [number, number];
  return {
    data: data.map((_, at) => data[(at % rows) * columns + Math.floor(at / rows)]!),
    dims: [columns, rows],
  };
}

/** Reads the attributes of all kept nodes. */
export function readAllAttributes({ withSource }: ModelState, { cut }: Rewrite): Promise<AttributesOf> {
  return withSource((source) => {
    const reader = new WireReader(source);
    const read = new Map([...cut.nodes].map((node) => [node, readAttributes(reader, node.scanned)]));
    return (node) => read.get(node) ?? new Map<string, Attribute>();
  });
}
