// A rank of ddp.py: trains each case on this rank's rows, and writes losses and weights.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTrainer, joinGroup } from 'onnx-tapir/train';

const folder = process.argv[2];
const { cases, steps, early, rows, most, shapes } = JSON.parse(
  readFileSync(join(folder, 'cases.json'), 'utf8'),
);
const group = await joinGroup();
const { rank, size } = group;

for (const [i, { model, batchNorm, optimizer }] of cases.entries()) {
  const isMse = model === 'mlp';
  const read = (name) => new Uint8Array(readFileSync(join(folder, `${model}.${name}`))).buffer;
  const inputs = new Float32Array(read('inputs'));
  const targets = isMse ? new Float32Array(read('targets')) : new Int32Array(read('targets'));
  const trainer = await createTrainer(join(folder, `${model}.onnx`), {
    loss: isMse ? { kind: 'mse', reduction: 'sum' } : 'cross-entropy',
    optimizer,
    batchNorm,
    group,
    devices: [{ type: 'cpu', threads: 1 }],
  });
  const losses = [];
  for (let step = 0; step < steps; step++) {
    const own = Array.from({ length: rows[step] }, (_, row) => row).filter((row) => row % size === rank);
    const pick = (array, inner) => {
      const width = array.length / (steps * most);
      const data = new array.constructor(own.length * width);
      for (const [at, row] of own.entries()) {
        const from = (step * most + row) * width;
        data.set(array.subarray(from, from + width), at * width);
      }
      return { dtype: array instanceof Int32Array ? 'int32' : 'float32', dims: [own.length, ...inner], data };
    };
    const batch = { input: pick(inputs, shapes[model]), target: pick(targets, isMse ? [3] : []) };
    losses.push((await trainer.step(batch)).loss);
    if (step + 1 === early) await trainer.save(join(folder, `tapir-${size}-${i}-early`));
  }
  await trainer.save(join(folder, `tapir-${size}-${i}`));
  if (rank === 0) writeFileSync(join(folder, `tapir-${size}-${i}.json`), JSON.stringify(losses));
  await trainer.close();
}
await group.close();
