/** One batch over several devices, and a stream of batches. Run: npx tsx examples/07-data-parallel.ts [MODEL] */
import { createFeatureExtractor, DataParallel, type Tensor } from 'onnx-tapir';

const model = process.argv[2] ?? 'models/resnet50-untrained.onnx';
// Lanes on the CPU; on GPUs: ['cuda:0', 'cuda:1'], or 'all'.
const devices = ['cpu:0', 'cpu:1'] as const;
const batchOf = (rows: number): Tensor<'float32'> => ({
  dtype: 'float32',
  dims: [rows, 3, 224, 224],
  data: Float32Array.from({ length: rows * 3 * 224 * 224 }, (_, i) => Math.sin(i)),
});

await using extractor = await createFeatureExtractor(model, { avgpool: 'pooled' });
await using parallel = await DataParallel.create(extractor, { devices });
console.log(parallel.rowsPerDevice(5)); // [{ device: 'cpu:0', rows: 3 }, { device: 'cpu:1', rows: 2 }], as torch.chunk
const { pooled } = await parallel.run(batchOf(5));
console.log('one batch, split:', pooled.dims);

// Whole batches to whichever device is free, results in order, memory bounded.
let rows = 0;
for await (const result of parallel.map([4, 4, 4, 2].map(batchOf))) rows += result.pooled.dims[0]!;
console.log(
  'a stream:',
  rows,
  'rows by',
  parallel.replicas.map(({ device, runs }) => `${device} (${runs} runs)`).join(', '),
);
