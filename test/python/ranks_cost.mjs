// What ranks cost: bytes per step and the share of CPU time that the pipe and gloo take. `torchrun --nproc-per-node 2 -m onnx_tapir.run
// test/python/ranks_cost.mjs [STEPS]`. Of a ResNet-50, the head, and layer4 with the head; 8 photos of 224 px per rank.
import { readFileSync } from 'node:fs';
import { createTrainer, joinGroup } from 'onnx-tapir/train';
import { createModel } from 'onnx-tapir/zoo';

const steps = Number(process.argv[2] ?? 4);
const joined = await joinGroup();
let sent = 0;
const group = {
  rank: joined.rank,
  size: joined.size,
  sum: (arrays, signal) => {
    for (const array of arrays) sent += array.byteLength;
    return joined.sum(arrays, signal);
  },
  broadcast: (bytes) => joined.broadcast(bytes),
  barrier: () => joined.barrier(),
  close: (reason) => joined.close(reason),
};
/** CPU seconds of the Python process of this rank. */
const parentSeconds = () => {
  const [, rest] = readFileSync(`/proc/${process.ppid}/stat`, 'utf8').split(') ');
  const fields = rest.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
const ownSeconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};
const measure = async (work) => {
  const [own, parent] = [ownSeconds(), parentSeconds()];
  await work();
  return [ownSeconds() - own, parentSeconds() - parent];
};

const model = await createModel('resnet50', { seed: 1 });
const input = {
  dtype: 'float32',
  dims: [8, 3, 224, 224],
  data: new Float32Array(8 * 3 * 224 * 224).fill(0.5),
};
const target = [0, 1, 2, 3, 4, 5, 6, 7];
for (const parameters of [['fc'], ['layer4', 'fc']]) {
  const options = {
    loss: 'cross-entropy',
    optimizer: 'adam',
    parameters,
    group,
    devices: [{ type: 'cpu', threads: 1 }],
  };
  const trainer = await createTrainer(model, options);
  await trainer.step({ input, target });
  sent = 0;
  const [own, parent] = await measure(async () => {
    for (let i = 0; i < steps; i++) await trainer.step({ input, target });
  });
  const bytes = sent / steps;
  const arrays = [new Float32Array(Math.round(bytes / 4))];
  const [pipe] = await measure(async () => {
    for (let i = 0; i < steps; i++) await group.sum(arrays);
  });
  if (group.rank === 0)
    console.log(
      `${parameters.join(', ')}: ${(bytes / 1e6).toFixed(2)} MB per step; CPU seconds per step: Node ${(own / steps).toFixed(2)}, of which the pipe ${(pipe / steps).toFixed(3)}; Python ${(parent / steps).toFixed(3)}; share ${((100 * (pipe + parent)) / (own + parent)).toFixed(1)} %`,
    );
  await trainer.close();
}
await joined.close();
