/** A process that ends while sessions run ends with the right exit code and never aborts. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../../../models/resnet.js';
import { isRelease, rounds } from '../../../support/rounds.js';
import { scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { hasOpenVino } from '../../../support/openvino.js';
import { runScript } from '../../../support/run.js';

const model = join(scratchFolder(), 'model.onnx');
// On fast cores, two runs of 16 images take 75 ms, so that each exit below happens during one.
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 32, size: 224, classes: 10 }).bytes);

/** Ends tests that hang. It is far above the time that they take on a busy machine: they are bounded by their rounds. */
const HANG_MS = 1_800_000;

/** A script whose sessions are at work when its next line runs. */
const busyWith = (options: string, runs = 2): string => `
import { createFeatureExtractor } from 'onnx-tapir';
const extractor = await createFeatureExtractor(${JSON.stringify(model)}, ['layer4'], ${options});
const batch = { dtype: 'float32', dims: [16, 3, 224, 224], data: new Float32Array(16 * 3 * 224 * 224) };
const run = () => extractor.run(batch);
await run();
const runs = Array.from({ length: ${runs} }, run);
for (const one of runs) one.catch(() => undefined);
// Until then the batch is copied.
await new Promise((resolve) => setTimeout(resolve, 20));
console.log('busy');
`;

const WAYS: [way: string, code: string, exitCode: number][] = [
  ['process.exit', 'process.exit(7);', 7],
  [
    'an uncaught error',
    "setTimeout(() => { throw new Error('uncaught'); }); await new Promise(() => setInterval(() => 0, 1e6));",
    1,
  ],
  ['the end of the script', '', 0],
  ['close() while running', 'await extractor.close();', 0],
  [
    'a signal handler that exits',
    "process.on('SIGINT', () => process.exit(130)); process.kill(process.pid, 'SIGINT'); await runs[1];",
    130,
  ],
];

/** How often each way is tried with threads, which are the delicate case. More find rarer races. */
const ROUNDS = rounds(1, 10);

/** How often lanes are killed. */
const KILLS = rounds(6, 20);

/** How many moments of opening a process exits at. */
const MOMENTS = rounds(4, 10);

const KINDS: [what: string, options: string, rounds: number][] = [
  ['two lanes in threads', "{ devices: ['cpu:0', 'cpu:1'], binding: 'node' }", ROUNDS],
  ['two lanes of the C API', "{ devices: ['cpu:0', 'cpu:1'], binding: 'c' }", ROUNDS],
  [
    'two streams of the C API',
    "{ devices: ['cpu:0'], parallel: { sessionsPerDevice: 2 }, binding: 'c' }",
    ROUNDS,
  ],
  ['two lanes in processes', "{ devices: ['cpu:0', 'cpu:1'], isolation: 'process' }", 1],
  ['one session', "{ binding: 'node' }", 1],
];
const OPENVINO_KINDS: typeof KINDS = [
  ['two lanes of OpenVINO', "{ engine: 'openvino', devices: ['cpu:0', 'cpu:1'] }", 1],
  [
    'two streams of OpenVINO',
    "{ engine: 'openvino', devices: ['cpu:0'], parallel: { sessionsPerDevice: 2 } }",
    1,
  ],
];

describe.each(isRelease ? [...KINDS, ...(hasOpenVino ? OPENVINO_KINDS : [])] : KINDS.slice(0, 2))(
  'a process with %s at work',
  (_what, options, rounds) => {
    it.each(WAYS)(
      'ends by %s with its exit code',
      async (_way, code, expected) => {
        for (let round = 0; round < rounds; round++) {
          const ended = await runScript(busyWith(options) + code);
          expect(ended.signal, ended.stderr).toBeNull();
          expect(ended.code, ended.stderr).toBe(expected);
        }
      },
      HANG_MS,
    );

    it.each(['SIGINT', 'SIGTERM'] as const)(
      'ends by %s as any process does',
      async (name) => {
        for (let round = 0; round < rounds; round++) {
          const ended = await runScript(`${busyWith(options)} await runs[1];`, {
            signal: { name, when: /busy/ },
          });
          expect(ended, ended.stderr).toMatchObject({ code: null, signal: name });
        }
      },
      HANG_MS,
    );
  },
);

describe('lanes', () => {
  const tiny = join(scratchFolder(), 'tiny.onnx');
  writeFileSync(tiny, tinyResNet());
  const script = (body: string): string => `
    import { readdirSync } from 'node:fs';
    import { createFeatureExtractor } from 'onnx-tapir';
    const x = { dtype: 'float32', dims: [4, 3, 64, 64], data: new Float32Array(4 * 3 * 64 * 64) };
    const create = (isolation) => createFeatureExtractor(${JSON.stringify(tiny)}, ['fc'], { devices: ['cpu:0', 'cpu:1'], isolation });
    const threads = () => (process.platform === 'linux' ? readdirSync('/proc/self/task').length : 0);
    ${body}`;

  it(
    // Twelve seconds: memory settles after 80 times, and a leak shows in the next 40 only.
    'opened, run and closed 120 times leave no thread and no memory behind',
    async () => {
      const ended = await runScript(
        script(`
          const before = threads();
          let settled;
          for (let i = 1; i <= 120; i++) {
            const parallel = await create('thread');
            await parallel.run(x);
            await parallel.close();
            if (i === 80) settled = process.memoryUsage.rss();
          }
          const grown = (process.memoryUsage.rss() - settled) / 1e6;
          console.log(JSON.stringify({ threads: threads() - before, isFlat: grown < 12, grown }));`),
      );
      expect(ended.code, ended.stderr).toBe(0);
      expect(JSON.parse(ended.stdout)).toMatchObject({ threads: 0, isFlat: true });
    },
    HANG_MS,
  );

  it(
    'killed again and again are opened again, and leave no process behind',
    async () => {
      const ended = await runScript(
        script(`
          const parallel = await create('process');
          const pids = new Set();
          let failures = 0;
          for (let i = 0; i < ${KILLS}; i++) {
            const [pid] = parallel.replicas[i % 2].pids;
            pids.add(pid);
            process.kill(pid, 'SIGKILL');
            // The death may be noticed before the run or by it.
            await parallel.run(x).catch((error) => {
              if (error.code !== 'REPLICA_FAILED' || error.cause.code !== 'LANE_DIED') throw error;
              failures++;
            });
            await parallel.run(x);
          }
          const restarts = parallel.replicas.reduce((sum, replica) => sum + replica.restarts, 0);
          await parallel.close();
          const alive = [...pids].filter((pid) => { try { return process.kill(pid, 0); } catch { return false; } });
          console.log(JSON.stringify({ restarts, different: pids.size, alive: alive.length }));`),
      );
      expect(ended.code, ended.stderr).toBe(0);
      expect(JSON.parse(ended.stdout)).toEqual({ restarts: KILLS, different: KILLS, alive: 0 });
    },
    HANG_MS,
  );

  it.skipIf(process.platform === 'win32')('in processes end when their owner is killed', async () => {
    const ended = await runScript(
      script(`
        const parallel = await create('process');
        await parallel.run(x);
        console.log(parallel.replicas.flatMap((replica) => replica.pids).join(' '));
        setInterval(() => 0, 1e6);`),
      { signal: { name: 'SIGKILL', when: /\d+ \d+/ } },
    );
    expect(ended.signal).toBe('SIGKILL');
    const pids = ended.stdout.trim().split(' ').map(Number);
    const isAlive = (pid: number): boolean => {
      try {
        return process.kill(pid, 0);
      } catch {
        return false;
      }
    };
    for (let i = 0; i < 200 && pids.some(isAlive); i++)
      await new Promise((resolve) => setTimeout(resolve, 50));
    expect(pids.filter(isAlive)).toEqual([]);
  });

  // On a busy machine, the script may sleep longer than two runs take, or end while batches are copied, when there is nothing to wait for.
  it('say so when a run outlasts the time that an exit may take', { retry: 9 }, async () => {
    const code = `${busyWith("{ devices: ['cpu:0', 'cpu:1'], exitTimeoutMs: 0 }", 12)} process.exit(0);`;
    const ended = await runScript(code);
    expect(ended.stderr).toContain(
      'onnx-tapir: a run did not end within 0 s of the exit; not waiting any longer',
    );
  });
});

describe('an idle session', () => {
  it('does not keep the process alive, closed or not', async () => {
    const code = `
      import { createFeatureExtractor } from 'onnx-tapir';
      const extractor = await createFeatureExtractor(${JSON.stringify(model)}, ['layer1']);
      console.log(extractor.device);`;
    for (const end of ['', 'await extractor.close(); await extractor.close();']) {
      const ended = await runScript(code + end);
      expect(ended, ended.stderr).toMatchObject({ code: 0, stdout: 'cpu\n' });
    }
  });
});

describe('inside a worker of the user', () => {
  it('sessions run in child processes, with telemetry off, and end with the worker', async () => {
    const inner = `
      import { parentPort } from 'node:worker_threads';
      import { createFeatureExtractor } from 'onnx-tapir';
      {
        const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { layer1: 'f' });
        const data = new Float32Array(3 * 224 * 224).fill(0.5);
        const { f } = await extractor.run({ dtype: 'float32', dims: [1, 3, 224, 224], data });
        parentPort.postMessage({ dims: f.dims, mean: f.data.reduce((a, b) => a + b) / f.data.length });
        await extractor.close();
      }`;
    const outer = `
      import { Worker } from 'node:worker_threads';
      import { createFeatureExtractor } from 'onnx-tapir';
      const worker = new Worker(${JSON.stringify(inner)}, { eval: true });
      const [result] = await new Promise((resolve, reject) => {
        worker.on('message', (message) => worker.on('exit', () => resolve([message])));
        worker.on('error', reject);
      });
      const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { layer1: 'f' });
      const data = new Float32Array(3 * 224 * 224).fill(0.5);
      const { f } = await extractor.run({ dtype: 'float32', dims: [1, 3, 224, 224], data });
      await extractor.close();
      console.log(JSON.stringify(result) === JSON.stringify({ dims: f.dims, mean: f.data.reduce((a, b) => a + b) / f.data.length }), result.dims.join());`;
    const ended = await runScript(outer);
    expect(ended, ended.stderr).toMatchObject({ code: 0, stdout: 'true 1,128,56,56\n' });
  });
});

describe('a process that exits while sessions are opened', () => {
  it(
    'ends with its exit code',
    async () => {
      for (let round = 0; round < MOMENTS; round++) {
        const code = `
        import { createFeatureExtractor } from 'onnx-tapir';
        const options = { devices: ['cpu:0', 'cpu:1'], parallel: { sessionsPerDevice: 2 } };
        void createFeatureExtractor(${JSON.stringify(model)}, ['layer4'], options);
        setTimeout(() => process.exit(9), ${60 + (160 / MOMENTS) * round});`;
        const ended = await runScript(code);
        expect(ended, ended.stderr).toMatchObject({ code: 9, signal: null });
      }
    },
    HANG_MS,
  );
});
