/**
 * `npm run bench`: ratios against limits, all measured in one run. Absolute figures depend on the machine and on what else
 * it does; read the ratios. Options: --rounds N, --json FILE, --only prune|scaling|stages|embed|sinks|serve.
 */
import { execFile, execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { createFeatureExtractor, openModel, pruneModel } from 'onnx-tapir';
import * as ort from 'onnxruntime-node';
import { format, interleave, ratios, secondsOf, spreadOf, type Spread } from './measure.js';

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '7' }, only: { type: 'string' }, json: { type: 'string' } },
});
const rounds = Number(values.rounds);
const model = fileURLToPath(new URL('../models/resnet50-untrained.onnx', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'tapir-bench-'));
const results: { readonly what: string; readonly ratio: Spread; readonly note: string }[] = [];

function report(what: string, ratio: Spread, note: string): void {
  results.push({ what, ratio, note });
  console.log(`${what.padEnd(64)} ${format(ratio).padStart(20)}   ${note}`);
}

/** Pruning and saving, against reading the whole file and writing as many bytes as are kept. */
async function benchPrune(node: string): Promise<void> {
  const { kept } = (await pruneModel(model, [node])).plan;
  const out = join(scratch, `${node}.onnx`);
  // Writing to disk varies more than anything else here.
  const seconds = await interleave(2 * rounds + 1, {
    prune: async () => (await pruneModel(model, [node])).save(out, { overwrite: true }),
    copy: () => writeFileSync(out, readFileSync(model).subarray(0, kept.bytes)),
  });
  const note = `${(spreadOf(seconds.prune).median * 1000).toFixed(0)} ms for ${(kept.bytes / 1e6).toFixed(1)} MB kept`;
  report(
    `prune to ${node} and save / read all and write kept bytes`,
    ratios(seconds.prune, seconds.copy),
    note,
  );
}

/** Peak resident memory of a process that does nothing but prune and save. */
async function benchPruneMemory(node: string): Promise<void> {
  const out = join(scratch, `${node}.onnx`);
  const code = `
    import { pruneModel } from 'onnx-tapir';
    await (await pruneModel(${JSON.stringify(model)}, [${JSON.stringify(node)}])).save(${JSON.stringify(out)}, { overwrite: true });
    console.log(process.resourceUsage().maxRSS / 1000);`;
  const root = fileURLToPath(new URL('..', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
    cwd: root,
  });
  const megabytes = Number(stdout);
  report(
    `prune to ${node} and save: peak resident memory / 200 MB`,
    spreadOf([megabytes / 200]),
    `${megabytes.toFixed(0)} MB`,
  );
}

const BATCH = 8;
const RUNS = 4;
const dims = [BATCH, 3, 224, 224];
const data = Float32Array.from({ length: BATCH * 3 * 224 * 224 }, (_, i) => Math.sin(i));

/** The extractor, against onnxruntime-node itself on the same pruned graph. */
async function benchModel(): Promise<number> {
  const request = ['layer4', 'avgpool'];
  const pruned = await pruneModel(model, request);
  const bare = await ort.InferenceSession.create(await pruned.bytes());
  const extractor = await createFeatureExtractor(model, request);
  const seconds = await interleave(rounds, {
    bare: async () => {
      for (let i = 0; i < RUNS; i++) await bare.run({ input: new ort.Tensor('float32', data, dims) });
    },
    extractor: async () => {
      for (let i = 0; i < RUNS; i++) await extractor.run({ dtype: 'float32', dims, data });
    },
  });
  await bare.release();
  await extractor.close();
  const speed = (BATCH * RUNS) / spreadOf(seconds.extractor).median;
  report(
    'extractor / onnxruntime-node on the same graph, images/s',
    ratios(seconds.bare, seconds.extractor),
    `${speed.toFixed(1)} images/s`,
  );
  return speed;
}

/** What pruning saves at run time: the whole graph, fetching layer2, against the graph cut there. */
async function benchPrunedRun(): Promise<void> {
  const whole = await ort.InferenceSession.create(await (await pruneModel(model, ['layer2', 'fc'])).bytes());
  const cut = await ort.InferenceSession.create(await (await pruneModel(model, ['layer2'])).bytes());
  const tensor = (await openModel(model)).nodes.find((node) => node.request === 'layer2.3.relu_2')!
    .outputs[0]!.name;
  const run = (session: ort.InferenceSession) => async () =>
    session.run({ input: new ort.Tensor('float32', data, dims) }, [tensor]);
  const seconds = await interleave(rounds, { whole: run(whole), cut: run(cut) });
  await Promise.all([whole.release(), cut.release()]);
  report(
    'layer2: whole graph with layer2 fetched / pruned graph, seconds',
    ratios(seconds.whole, seconds.cut),
    'pruning is the only way to save work',
  );
}

/** In a process of its own: what it watches is not to see the others. */
function benchIn(script: string, options: readonly string[]): unknown {
  const json = join(scratch, `${script}.json`);
  const path = fileURLToPath(new URL(script, import.meta.url));
  console.log('');
  execFileSync(process.execPath, [...process.execArgv, path, ...options, '--json', json], {
    stdio: 'inherit',
  });
  return JSON.parse(readFileSync(json, 'utf8'));
}

console.log(
  `Node ${process.versions.node}, ${availableParallelism()} cores, ${cpus()[0]?.model ?? ''}; median [min–max] of paired ratios\n`,
);
if (values.only === undefined || values.only === 'prune') {
  await benchPrune('avgpool');
  await benchPrune('layer2');
  await benchPruneMemory('avgpool');
  await benchPruneMemory('layer2');
}
if (values.only === undefined) {
  await benchPrunedRun();
  await benchModel();
  report(
    'peak resident memory of this process, MB',
    spreadOf([process.resourceUsage().maxRSS / 1000]),
    'all of the above',
  );
  const start = spreadOf([
    await secondsOf(async () => (await createFeatureExtractor(model, ['avgpool'])).close()),
  ]);
  report('open, prune, start a session and close it, seconds', start, 'once');
}
const isWanted = (part: string): boolean => values.only === undefined || values.only === part;
const scaling = isWanted('scaling') ? benchIn('scaling.ts', ['--rounds', values.rounds]) : undefined;
const stages = isWanted('stages') ? benchIn('stages.ts', ['--rounds', values.rounds]) : undefined;
const embed = isWanted('embed') ? benchIn('embed.ts', []) : undefined;
const sinks = isWanted('sinks') ? benchIn('sinks.ts', []) : undefined;
const serve = isWanted('serve') ? benchIn('serve.ts', []) : undefined;
rmSync(scratch, { recursive: true, force: true });

if (values.json !== undefined) {
  mkdirSync(dirname(values.json), { recursive: true });
  const machine = {
    node: process.versions.node,
    cores: availableParallelism(),
    cpu: cpus()[0]?.model,
    gpu: null,
  };
  writeFileSync(
    values.json,
    `${JSON.stringify({ date: new Date().toISOString(), machine, results, scaling, stages, embed, sinks, serve }, null, 2)}\n`,
  );
}
