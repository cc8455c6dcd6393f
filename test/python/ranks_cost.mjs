// What ranks cost. `torchrun --nproc-per-node 2 -m onnx_tapir.run test/python/ranks_cost.mjs [ROUNDS] [ROWS]`: ranks of one thread each take
// steps in turn with one process of as many lanes, on the same rows. Of a ResNet-50, the head, and layer4 with the head; ROWS photos of
// 224 px per rank. With one rank, what is measured is the pipe alone.
import { readFileSync } from 'node:fs';
import { loadavg } from 'node:os';
import { createTrainer, joinGroup } from 'onnx-tapir/train';
import { createModel } from 'onnx-tapir/zoo';

const [rounds, rows] = [Number(process.argv[2] ?? 7), Number(process.argv[3] ?? 8)];
const joined = await joinGroup();
const { rank, size } = joined;
let sent = 0;
const group = {
  rank,
  size,
  sum: (arrays, signal) => {
    for (const array of arrays) sent += array.byteLength;
    return joined.sum(arrays, signal);
  },
  broadcast: (bytes) => joined.broadcast(bytes),
  barrier: () => joined.barrier(),
  close: (reason) => joined.close(reason),
};

/** CPU seconds of a process, or of its main thread. */
const cpuOf = (path) => {
  const [, rest] = readFileSync(path, 'utf8').split(') ');
  const fields = rest.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
/** CPU seconds of this process, its main thread, and the Python process of this rank. */
const cpuSeconds = () => [
  cpuOf('/proc/self/stat'),
  cpuOf(`/proc/self/task/${process.pid}/stat`),
  cpuOf(`/proc/${process.ppid}/stat`),
];
/**
 * Seconds of the work, and CPU seconds of all ranks' processes. All ranks begin together; one that has no work waits. `path` is how long
 * the work would take with a core for each rank or lane: lanes work at the same time, and the main thread alternates with them.
 */
const measure = async (work, lanes) => {
  await joined.barrier();
  const [started, before] = [performance.now(), cpuSeconds()];
  await work?.();
  const seconds = (performance.now() - started) / 1000;
  const cpu = Float64Array.from(cpuSeconds(), (value, i) => value - before[i]);
  await joined.sum([cpu]);
  const [node, main, python] = cpu;
  const path = lanes > 1 ? main + (node - main) / lanes : (node + python) / size;
  return { seconds, cpu: node + python, path };
};
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
const load = () => loadavg()[0].toFixed(1);

const model = await createModel('resnet50', { seed: 1 });
const batchOf = (count) => ({
  input: {
    dtype: 'float32',
    dims: [count, 3, 224, 224],
    data: Float32Array.from({ length: count * 3 * 224 * 224 }, (_, i) => Math.sin(i)),
  },
  target: Array.from({ length: count }, (_, i) => i),
});
const device = { type: 'cpu', threads: 1 };
for (const parameters of [['fc'], ['layer4', 'fc']]) {
  const options = { loss: 'cross-entropy', optimizer: 'adam', parameters };
  const ranks = await createTrainer(model, { ...options, group, devices: [device] });
  const devices = Array.from({ length: size }, (_, id) => ({ ...device, id }));
  const lanes = rank === 0 ? await createTrainer(model, { ...options, devices }) : undefined;
  const trained = new Set(ranks.parameters);
  const trainedBytes = model
    .parameters()
    .filter(({ name }) => trained.has(name))
    .reduce((total, { dims }) => total + 4 * dims.reduce((product, dim) => product * dim, 1), 0);
  const [own, all] = [batchOf(rows), batchOf(rows * size)];
  const taken = { ranks: [], lanes: [], sums: [] };
  let bytes = 0;
  const before = load();
  for (let round = 0; round <= rounds; round++) {
    sent = 0;
    const step = await measure(() => ranks.step(own), 1);
    bytes = sent;
    const arrays = [new Float32Array(trainedBytes / 4)];
    const lane = await measure(lanes && (() => lanes.step(all)), size);
    const sum = await measure(() => joined.sum(arrays), 1);
    // The first round warms up.
    if (round > 0)
      for (const [name, one] of Object.entries({ ranks: step, lanes: lane, sums: sum }))
        taken[name].push(one);
  }
  if (rank === 0) {
    const over = (key, a, b) => median(taken[a].map((one, i) => one[key] / taken[b][i][key])).toFixed(3);
    const ms = (key, name) => `${(1000 * median(taken[name].map((one) => one[key]))).toFixed(0)} ms`;
    const how = { path: 'by the CPU time of its longest path', seconds: 'by the clock', cpu: 'by CPU time' };
    console.log(
      `${parameters.join(', ')}: ${size} rank(s) of ${rows} rows, ${rounds} rounds, load ${before} to ${load()}; ${(bytes / 1e6).toFixed(3)} MB per step and rank, ${(bytes / trainedBytes).toFixed(4)} of the trained tensors`,
    );
    for (const [key, text] of Object.entries(how))
      console.log(
        `  ${text}: throughput over ${size} lane(s) ${over(key, 'lanes', 'ranks')} (${ms(key, 'ranks')} a step, lanes ${ms(key, 'lanes')}); pipe and sums ${over(key, 'sums', 'ranks')} of a step`,
      );
  }
  await ranks.close();
  await lanes?.close();
}
await joined.close();
