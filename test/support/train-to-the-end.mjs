/**
 * Trains a network for a number of steps, with a checkpoint after every second one, and goes on from the checkpoint that is there.
 *
 * Usage: train-to-the-end.mjs MODEL FOLDER STEPS. Prints the number of each step; at the end, the SHA-256 of all weights and statistics.
 */
import { createHash } from 'node:crypto';
import { existsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { createTrainer } from 'onnx-tapir/train';

const [model, folder, steps] = process.argv.slice(2);
const [ROWS, SIZE, CLASSES] = [4, 64, 10];

/** The batch of a step: it depends on nothing else. */
function batchOf(step) {
  const length = ROWS * 3 * SIZE * SIZE;
  const data = Float32Array.from({ length }, (_, i) => Math.sin(i * (step + 1)));
  const target = Array.from({ length: ROWS }, (_, row) => (row * 3 + step) % CLASSES);
  return { input: { dtype: 'float32', dims: [ROWS, 3, SIZE, SIZE], data }, target };
}

const trainer = await createTrainer(model, {
  loss: 'cross-entropy',
  optimizer: { kind: 'adam', lr: 0.01 },
  batchNorm: 'batch',
  schedule: { kind: 'cosine', steps: Number(steps) },
});
if (existsSync(join(folder, 'checkpoint.json'))) await trainer.resume(folder);
while (trainer.steps < Number(steps)) {
  const { step } = await trainer.step(batchOf(trainer.steps));
  writeSync(1, `${step}\n`);
  if (step % 2 === 0) await trainer.save(folder, { step });
}
const hash = createHash('sha256');
for (const [name, { data }] of await trainer.stateDict())
  hash.update(name).update(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
writeSync(1, `weights ${hash.digest('hex')}\n`);
await trainer.close();
