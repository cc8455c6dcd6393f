/** What a model's file says about patches: their side, and the one size of photos that a frozen table of positions allows. */
import { findPositionTable, firstStride, gridOfTable } from '../../onnx/graph/position-table.js';
import { readConstants } from '../../onnx/graph/read-constants.js';
import { WireReader } from '../../onnx/file/wire/wire.js';
import { elementTypeName } from '../../onnx/file/wire/schema.js';
import { isDType } from '../../onnx/tensor/tensor.js';
import { widen } from '../../onnx/tensor/widen.js';
import { modelInternals } from './open/model-state.js';
import type { OnnxModel } from './open/open-model.js';
import { readElements } from './open/read-initializer.js';

/** The stride of the first convolution, which is the patch of a Vision Transformer; undefined without one. */
export function readFirstStride(model: OnnxModel): number | undefined {
  const { graph, readNow } = modelInternals.of(model);
  return readNow((source) => firstStride(graph, readConstants(new WireReader(source))));
}

/** Height and width of the photos that the table of positions was frozen for; undefined if the file holds no such table. */
export function readFrozenSize(
  model: OnnxModel,
): { readonly height: number; readonly width: number } | undefined {
  const state = modelInternals.of(model);
  return state.readNow((source) => {
    const reader = new WireReader(source);
    const table = findPositionTable(state.graph, readConstants(reader));
    const dtype = table && elementTypeName(table.tensor.elemType);
    if (!table || !isDType(dtype)) return undefined;
    const values = Float32Array.from(widen(dtype, readElements(reader, state, table.tensor).buffer));
    const width = values.length / (table.before + table.patches);
    const [rows, columns] = gridOfTable(values.subarray(table.before * width), table.patches);
    return { height: rows * table.patch, width: columns * table.patch };
  });
}
