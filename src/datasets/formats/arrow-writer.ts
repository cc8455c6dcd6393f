/**
 * Writes feature files in Arrow's IPC file format: columns `row`, `path` and the output's key, which is a list of fixed size. With
 * more than one dim, it is a tensor (the extension arrow.fixed_shape_tensor).
 */
import { elementBytes } from '../../onnx/tensor/tensor.js';
import {
  createFileEncoder,
  featureData,
  loadArrow,
  textData,
  type Arrow,
  type RecordBatch,
  type Schema,
} from './library.js';
import type { AtomicFile } from '../../base/atomic-file.js';
import type { FeatureColumn } from '../../onnx/tensor/feature-column.js';
import type { FeatureEncoder } from './feature-format.js';
import { featureSchema } from './feature-schema.js';
import { RowStage, type RowGroup } from './row-stage.js';

/** The size of a record batch. A reader must hold at least one batch. */
const BATCH_BYTES = 4 * 2 ** 20;

/** Smaller pieces are joined: the encoder makes about ten of them per batch, and each write costs a turn of another thread. */
const SMALL_PIECE_BYTES = 65_536;

export async function createArrowEncoder(file: AtomicFile, column: FeatureColumn): Promise<FeatureEncoder> {
  const arrow = await loadArrow();
  const schema = featureSchema(arrow, column);
  /** Encoded bytes that are not in the file yet. */
  const pieces: Uint8Array[] = [];
  const encoder = createFileEncoder(arrow, schema, pieces);
  const stage = new RowStage(column.elements * elementBytes(column.dtype), BATCH_BYTES, (group) => {
    encoder.write(batchOf(arrow, schema, column, group));
    return appendJoined(file, pieces.splice(0));
  });
  return {
    append: (rows) => stage.append(rows),
    async end() {
      await stage.flush();
      encoder.finish();
      await appendJoined(file, pieces.splice(0));
    },
  };
}

async function appendJoined(file: AtomicFile, pieces: readonly Uint8Array[]): Promise<void> {
  let small: Uint8Array[] = [];
  for (const piece of [...pieces, undefined]) {
    if (piece && piece.byteLength < SMALL_PIECE_BYTES) {
      small.push(piece);
      continue;
    }
    await file.append(Buffer.concat(small));
    small = [];
    if (piece) await file.append(piece);
  }
}

/** Makes a record batch that views the rows' bytes. */
function batchOf(
  arrow: Arrow,
  schema: Schema,
  { dtype }: FeatureColumn,
  { rows, rowNumbers, paths, values }: RowGroup,
): RecordBatch {
  const children = [
    arrow.makeData({ type: new arrow.Int64(), length: rows, data: rowNumbers }),
    textData(arrow, paths),
    featureData(arrow, schema.fields[2]!.type, dtype, rows, values),
  ];
  const type = new arrow.Struct(schema.fields);
  return new arrow.RecordBatch(schema, arrow.makeData({ type, length: rows, nullCount: 0, children }));
}
