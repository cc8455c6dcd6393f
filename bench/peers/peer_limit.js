/**
 * What onnxruntime-node itself can do: the same graph on tensors that are there already, results thrown away, only the loop timed.
 * `session`: one session with all threads, on batches of BATCH. `workers`: a thread per core, each with a session of one thread.
 *
 *     node peer_limit.js MODEL COUNT session|workers BATCH THREADS
 */
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';
import * as ort from 'onnxruntime-node';

const [model, count, mode, batch, threads] = isMainThread ? process.argv.slice(2) : workerData;

/** Opens a session and warms it up; the function returned runs so many images. */
async function open(sessionThreads) {
  const session = await ort.InferenceSession.create(model, { intraOpNumThreads: sessionThreads });
  const rows = Number(batch);
  const data = new Float32Array(rows * 3 * 224 * 224);
  for (let i = 0; i < data.length; i++) data[i] = 2 * Math.sin(i);
  const feeds = { [session.inputNames[0]]: new ort.Tensor('float32', data, [rows, 3, 224, 224]) };
  await session.run(feeds);
  return async (images) => {
    for (let done = 0; done < images; done += rows) await session.run(feeds);
  };
}

async function report(run, ran) {
  const cpu = process.cpuUsage();
  const started = performance.now();
  await run();
  const loopS = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  console.log(JSON.stringify({ n: ran, loopS, loopCpuS: (user + system) / 1e6 }));
}

const whole = (images) => Math.ceil(images / Number(batch)) * Number(batch);
if (!isMainThread) {
  const run = await open(1);
  parentPort.on('message', (images) => void run(images).then(() => parentPort.postMessage('done')));
  parentPort.postMessage('ready');
} else if (mode === 'workers') {
  const workers = Array.from(
    { length: Number(threads) },
    () => new Worker(new URL(import.meta.url), { workerData: process.argv.slice(2) }),
  );
  const answers = () =>
    Promise.all(workers.map((worker) => new Promise((resolve) => void worker.once('message', resolve))));
  await answers();
  const share = whole(Number(count) / workers.length);
  await report(() => {
    const done = answers();
    for (const worker of workers) worker.postMessage(share);
    return done;
  }, share * workers.length);
  // No worker is inside onnxruntime now, so that they may be ended.
  process.exit(0);
} else {
  const run = await open(Number(threads));
  await report(() => run(Number(count)), whole(Number(count)));
}
