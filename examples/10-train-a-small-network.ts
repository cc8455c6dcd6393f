/**
 * Three convolutions and a linear layer learn a number from an image: the mean squared error, RMSprop. Each image has a bright square; the
 * target is the square's height. Run: npx tsx examples/10-train-a-small-network.ts [STEPS]
 */
import { createTrainer, type TrainBatch } from 'onnx-tapir/train';
import { network } from './networks/layers.js';

const steps = Number(process.argv[2] ?? 200);
const SIZE = 16;
const convolution = (name: string, inputs: number, outputs: number) => ({
  op: 'Conv',
  name,
  weight: [outputs, inputs, 3, 3],
  attributes: { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] },
});
const relu = { op: 'Relu' };
const model = network(
  [1, SIZE, SIZE],
  [
    convolution('conv1', 1, 8),
    relu,
    convolution('conv2', 8, 16),
    relu,
    convolution('conv3', 16, 16),
    relu,
    { op: 'Flatten' },
    { op: 'Gemm', name: 'fc', weight: [1, 16 * 2 * 2], attributes: { transB: 1 } },
  ],
  1,
);

/** Images of squares at rows 0 to 12, and these rows over 12. */
function squares(seed: number, rows = 16): TrainBatch {
  const data = new Float32Array(rows * SIZE * SIZE);
  const target = new Float32Array(rows);
  for (let row = 0; row < rows; row++) {
    const [top, left] = [(row * 5 + seed * 7) % 13, (row * 3 + seed * 11) % 13];
    for (let y = 0; y < 4; y++)
      data.fill(1, (row * SIZE + top + y) * SIZE + left, (row * SIZE + top + y) * SIZE + left + 4);
    target[row] = top / 12;
  }
  return {
    input: { dtype: 'float32', dims: [rows, 1, SIZE, SIZE], data },
    target: { dtype: 'float32', dims: [rows, 1], data: target },
  };
}

await using trainer = await createTrainer(model, { loss: 'mse', optimizer: { kind: 'rmsprop', lr: 0.001 } });
const before = await trainer.evaluate(squares(1000));
for (let step = 0; step < steps; step++) {
  const { loss } = await trainer.step(squares(step));
  if (step % 50 === 0) console.log(`step ${step}: loss ${loss.toFixed(4)}`);
}
const after = await trainer.evaluate(squares(1000));
console.log(`squares not seen: loss ${before.loss.toFixed(4)} → ${after.loss.toFixed(4)}`);
console.log(after.loss < before.loss / 10 ? 'learned' : 'did not learn');
