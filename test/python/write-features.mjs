/** Writes a feature file per format, dtype and dims into a folder, for read_features.py. Run by hand after `npm run build`. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureWriter, FEATURE_FORMATS } from '../../build/modules/datasets/formats/feature-files.js';
import { createData } from '../../build/modules/onnx/tensor/tensor.js';

const folder = process.argv[2];
if (folder === undefined) throw new Error('usage: node test/python/write-features.mjs DIR');
mkdirSync(folder, { recursive: true });
const DTYPES = ['float32', 'float16', 'float64', 'int8', 'uint8', 'int16', 'uint16'].concat([
  'int32',
  'uint32',
  'int64',
  'uint64',
  'bool',
]);
const ROWS = 1000;
/** In float32's bits: NaN of two payloads, infinities, zeros, subnormals. */
const SPECIAL = [0x7fc00000, 0xffc12345, 0x7f800000, 0xff800000, 0, 0x80000000, 1, 0x807fffff];

for (const dtype of DTYPES) {
  for (const dims of [[], [3], [2048], [2, 2, 2]]) {
    const elements = dims.reduce((product, size) => product * size, 1);
    const data = createData(dtype, ROWS * elements);
    const bytes = new Uint8Array(data.buffer);
    for (let i = 0; i < bytes.length; i++)
      bytes[i] = dtype === 'bool' ? ((i * 7) % 3) & 1 : (i * 151 + (i >> 8)) % 256;
    if (dtype === 'float32') new Uint32Array(data.buffer).set(SPECIAL);
    for (const format of FEATURE_FORMATS) {
      const path = join(folder, `${dtype}-${dims.join('x') || 'scalar'}.${format}`);
      const writer = await createFeatureWriter(format, path, 'map/4', dtype, dims);
      for (let row = 0; row < ROWS; row += 32) {
        const end = Math.min(ROWS, row + 32);
        const tensor = {
          dtype,
          dims: [end - row, ...dims],
          data: data.subarray(row * elements, end * elements),
        };
        const paths = Array.from({ length: end - row }, (_, i) =>
          row + i === 1 ? null : `höhe/${row + i}.jpg`,
        );
        await writer.append({ tensor, firstRow: 7 + row, paths });
      }
      await writer.finish();
    }
  }
}
