/**
 * What only a GPU can show: which device is used, what happens when its memory is full, whether sessions can be ended. `run.sh
 * --check` starts it on a GPU machine. Each step stands alone, and prints one line of JSON; a step that fails ends the script with
 * code 1, after the others. Needs Python with torch there, to fill the GPU's memory as another program would.
 */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createFeatureExtractor, DataParallel, listDevices, type TapirError, type Tensor } from 'onnx-tapir';
import { buildResNet } from '../../models/resnet.js';

const HERE = dirname(fileURLToPath(import.meta.url));
const NODES = ['layer4', 'avgpool'];
const model = join(mkdtempSync(join(tmpdir(), 'gpu-check-')), 'resnet50.onnx');
writeFileSync(model, buildResNet().bytes);

function batchOf(rows: number, seed = 0.37): Tensor<'float32'> {
  const data = Float32Array.from({ length: rows * 3 * 224 * 224 }, (_, i) => Math.sin(i * seed));
  return { dtype: 'float32', dims: [rows, 3, 224, 224], data };
}

const floats = (tensor: Tensor | undefined): Float32Array => tensor!.data as Float32Array;

/** The largest difference over the largest value. */
function distance(a: Tensor | undefined, b: Tensor | undefined): number {
  const [left, right] = [floats(a), floats(b)];
  if (left.length !== right.length) return Infinity;
  const largest = right.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return right.reduce((most, value, i) => Math.max(most, Math.abs(value - left[i]!)), 0) / largest;
}

const failureOf = async (step: () => Promise<unknown>): Promise<{ code: string; message: string }> => {
  try {
    await step();
  } catch (error) {
    const { code, message } = error as TapirError;
    return { code, message };
  }
  throw new Error('no error');
};

function gpuMegabytes(): number {
  const query = ['--query-gpu=memory.used', '--format=csv,noheader,nounits'];
  return Number(execFileSync('nvidia-smi', query, { encoding: 'utf8' }).split('\n')[0]);
}

/** Runs a step while another program leaves so much of the GPU's memory. */
async function whileFull<T>(freeMegabytes: number, step: () => Promise<T>): Promise<T> {
  const program = `import sys, torch
free, _ = torch.cuda.mem_get_info()
kept = torch.empty(free - ${freeMegabytes} * 1000000, dtype=torch.uint8, device='cuda')
print('full', flush=True)
sys.stdin.read()`;
  const other = spawn('python3', ['-c', program], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => other.once('exit', resolve));
  await new Promise<void>((resolve, reject) => {
    other.stdout.once('data', () => resolve());
    other.once('exit', (code) => reject(new Error(`the other program ended with ${code}`)));
  });
  try {
    return await step();
  } finally {
    other.stdin.end();
    await ended;
  }
}

/** Runs a script beside this file; `model` and `tapir` are defined in it. */
function runScript(body: string, env: NodeJS.ProcessEnv = process.env): Promise<object> {
  const script = `import * as tapir from 'onnx-tapir'; const model = ${JSON.stringify(model)};
const open = (options) => tapir.createFeatureExtractor(model, ['avgpool'], { device: 'cuda:0', ...options });
const batch = { dtype: 'float32', dims: [32, 3, 224, 224], data: new Float32Array(32 * 3 * 224 * 224) };
${body}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], { cwd: HERE, env });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (text: Buffer) => (stdout += text.toString()));
  child.stderr.on('data', (text: Buffer) => (stderr += text.toString()));
  return new Promise((resolve) =>
    child.once('exit', (code, signal) =>
      resolve({ code, signal, stdout: stdout.trim(), stderr: stderr.trim() }),
    ),
  );
}

const STEPS: Readonly<Record<string, () => Promise<object>>> = {
  devices: async () => ({ list: await listDevices() }),
  'a GPU that is missing': () => failureOf(() => createFeatureExtractor(model, NODES, { device: 'cuda:7' })),
  'auto takes the GPU': async () => {
    await using extractor = await createFeatureExtractor(model, NODES, { device: 'auto' });
    if (extractor.device !== 'cuda:0') throw new Error(`it took ${extractor.device}`);
    return { device: extractor.device };
  },
  'the same batch again': async () => {
    await using extractor = await createFeatureExtractor(model, NODES, { device: 'cuda:0' });
    const [first, again] = [await extractor.run(batchOf(32)), await extractor.run(batchOf(32))];
    const part = {
      ...batchOf(32),
      dims: [31, 3, 224, 224],
      data: batchOf(32).data.slice(0, 31 * 3 * 224 * 224),
    };
    const fewer = await extractor.run(part);
    const rows31 = floats(first['avgpool']).slice(0, 31 * 2048);
    const filled = distance(fewer['avgpool'], { dtype: 'float32', dims: [31, 2048, 1, 1], data: rows31 });
    return { again: distance(again['layer4'], first['layer4']), 'one row fewer': filled };
  },
  'two sessions of one GPU': async () => {
    const parallel = { sessionsPerDevice: 2 };
    await using both = await createFeatureExtractor(model, NODES, { devices: ['cuda:0'], parallel });
    if (!(both instanceof DataParallel)) throw new Error('not parallel');
    await using one = await createFeatureExtractor(model, NODES, { device: 'cuda:0' });
    const batches = [0.1, 0.2, 0.3, 0.4].map((seed) => batchOf(16, seed));
    const together = await Promise.all(batches.map((batch) => both.run(batch)));
    const distances = [];
    for (const [i, batch] of batches.entries())
      distances.push(distance(together[i]!['layer4'], (await one.run(batch))['layer4']));
    return { distances };
  },
  'no memory for a session': () =>
    whileFull(40, () => failureOf(() => createFeatureExtractor(model, NODES, { device: 'cuda:0' }))),
  'no memory for a run, then enough': async () => {
    await using extractor = await createFeatureExtractor(model, NODES, { device: 'cuda:0' });
    const before = await extractor.run(batchOf(1));
    const failure = await whileFull(500, () => failureOf(() => extractor.run(batchOf(256))));
    return { ...failure, after: distance((await extractor.run(batchOf(1)))['layer4'], before['layer4']) };
  },
  'sessions give their memory back': async () => {
    const megabytes: number[] = [];
    for (let i = 0; i < 12; i++) {
      await using extractor = await createFeatureExtractor(model, NODES, { device: 'cuda:0' });
      await extractor.run(batchOf(8));
      megabytes.push(gpuMegabytes());
    }
    return {
      megabytes,
      closed: gpuMegabytes(),
      residentMegabytes: Math.round(process.memoryUsage.rss() / 1e6),
    };
  },
  'a session in a process is killed': async () => {
    const isolation = 'process' as const;
    await using extractor = await createFeatureExtractor(model, NODES, { device: 'cuda:0', isolation });
    const before = await extractor.run(batchOf(8));
    const children = execFileSync('pgrep', ['-P', String(process.pid)], { encoding: 'utf8' });
    const failure = failureOf(() => extractor.run(batchOf(64)));
    for (const pid of children.trim().split('\n').map(Number)) process.kill(pid, 'SIGKILL');
    return {
      ...(await failure),
      after: distance((await extractor.run(batchOf(8)))['layer4'], before['layer4']),
    };
  },
  'the process exits while the GPU works': () =>
    runScript(`const extractor = await open(); await extractor.run(batch);
for (let i = 0; i < 4; i++) void extractor.run(batch); setTimeout(() => process.exit(3), 5);`),
  'the process ends without close': () =>
    runScript('const e = await open(); await e.run(batch); console.log("done");'),
  'an error that nobody catches': () =>
    runScript('const e = await open(); void e.run(batch); throw new Error("mine");'),
  'no library path': () => {
    const { LD_LIBRARY_PATH: _, ...env } = process.env;
    return runScript(
      'await open().then((e) => e.close()).then(() => console.log("opened"), console.log);',
      env,
    );
  },
  'libraries from a folder': () => {
    const { LD_LIBRARY_PATH: _, ...env } = process.env;
    const folder = execFileSync('python3', ['-c', 'import nvidia; print(list(nvidia.__path__)[0])'], {
      encoding: 'utf8',
    });
    const options = JSON.stringify({ cudaLibraries: folder.trim() });
    return runScript(
      `const e = await open(${options}); await e.run(batch); await e.close(); console.log("ran");`,
      env,
    );
  },
};

for (const [name, step] of Object.entries(STEPS)) {
  const started = performance.now();
  try {
    const found = await step();
    console.log(
      JSON.stringify({ name, seconds: Math.round((performance.now() - started) / 100) / 10, ...found }),
    );
  } catch (error) {
    console.log(JSON.stringify({ name, failed: String(error) }));
    process.exitCode = 1;
  }
}
