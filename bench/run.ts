/**
 * `npm run bench`: ratios against limits, all measured in one run. Absolute figures depend on the machine and on what else
 * it does; read the ratios. What cannot run is listed last, and the exit code is then 1, unless --without excludes it.
 * Options: --rounds N, --json FILE, --only PART, --without PART,PART; parts are prune, model, scaling, stages, embed, sinks, serve.
 */
import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { createFeatureExtractor, openModel, pruneModel } from 'onnx-tapir';
import * as ort from 'onnxruntime-node';
import { format, interleave, ratios, secondsOf, spreadOf, type Spread } from './measure.js';
import { describeMachine, machineText, reportGaps, writeRecord, type Gap } from './record.js';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '7' },
    only: { type: 'string' },
    json: { type: 'string' },
    without: { type: 'string', default: '' },
  },
});
const rounds = Number(values.rounds);
const model = fileURLToPath(new URL('../models/resnet50-untrained.onnx', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'tapir-bench-'));
const results: { readonly what: string; readonly ratio: Spread; readonly note: string }[] = [];

function report(what: string, ratio: Spread, note: string): void {
  results.push({ what, ratio, note });
  console.log(`${what.padEnd(64)} ${format(ratio).padStart(20)}   ${note}`);
}

/** The most that a cut may take, in ms: names are resolved and ranges chosen, and no session starts. */
const MOST_CUT_MS = 10;

/** Pruning an opened model; pruning and saving, against reading the whole file and writing as many bytes as are kept. */
async function benchPrune(node: string, most: number): Promise<void> {
  const { kept } = (await pruneModel(model, [node])).plan;
  const out = join(scratch, `${node}.onnx`);
  const opened = await openModel(model);
  // Writing to disk varies more than anything else here.
  const seconds = await interleave(2 * rounds + 1, {
    cut: () => pruneModel(opened, [node]),
    prune: async () => (await pruneModel(model, [node])).save(out, { overwrite: true }),
    copy: () => writeFileSync(out, readFileSync(model).subarray(0, kept.bytes)),
  });
  const cutMs = spreadOf(seconds.cut.map((taken) => 1000 * taken));
  report(`prune to ${node}, opened before: ms`, cutMs, verdict(cutMs, MOST_CUT_MS));
  const ratio = ratios(seconds.prune, seconds.copy);
  const taken = `${(spreadOf(seconds.prune).median * 1000).toFixed(0)} ms for ${(kept.bytes / 1e6).toFixed(1)} MB kept`;
  report(
    `prune to ${node} and save / read all and write kept bytes`,
    ratio,
    `${verdict(ratio, most)}; ${taken}`,
  );
}

function verdict({ median }: Spread, most: number): string {
  return `${median <= most ? 'ok' : 'MISSED'}: <= ${most}`;
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

console.log(`${machineText()}; median [min–max] of paired ratios\n`);
const without = new Set(values.without.split(','));
const gaps: Gap[] = [];

/** Runs a part that is wanted. One that fails does not keep the others from running. */
async function measure(part: string, step: () => unknown): Promise<unknown> {
  if (without.has(part) || (values.only !== undefined && values.only !== part)) return undefined;
  try {
    return await step();
  } catch (error) {
    gaps.push({ name: part, reason: (error as Error).message.trim().split('\n').at(-1)! });
    return undefined;
  }
}

await measure('prune', async () => {
  await benchPrune('avgpool', 1.3);
  await benchPrune('layer2', 1);
  await benchPruneMemory('avgpool');
  await benchPruneMemory('layer2');
});
await measure('model', async () => {
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
});
const scaling = await measure('scaling', () => benchIn('scaling.ts', ['--rounds', values.rounds]));
const stages = await measure('stages', () => benchIn('stages.ts', ['--rounds', values.rounds]));
const embed = await measure('embed', () => benchIn('embed.ts', []));
const sinks = await measure('sinks', () => benchIn('sinks.ts', []));
const serve = await measure('serve', () => benchIn('serve.ts', []));
rmSync(scratch, { recursive: true, force: true });

/** The rows of a record, those of its parts included. */
function rowsOf(record: unknown): string[] {
  const { results = [], ...parts } = record as { readonly results?: readonly { readonly what: string }[] };
  const inside = Object.values(parts).filter((part) => typeof part === 'object' && part !== null);
  return [...results.map(({ what }) => what), ...inside.flatMap(rowsOf)];
}

if (values.json !== undefined) {
  const machine = describeMachine();
  const content = { date: new Date().toISOString(), machine, results, scaling, stages, embed, sinks, serve };
  writeRecord(values.json, { ...content, gaps }, rowsOf);
}
reportGaps(gaps);
