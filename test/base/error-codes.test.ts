/** Every error code, produced once by the real thing: through the public API or the command. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  createTransform,
  embedFolder,
  embedImages,
  findTransform,
  loadImage,
  transformFromConfig,
  mergeDataset,
  openDataset,
  openModel,
  pruneModel,
  type ErrorCode,
  type TensorLike,
} from 'onnx-tapir';
import { loadStateDict, readStateDict } from 'onnx-tapir/parameters';
import { Pipeline, splitModel } from 'onnx-tapir/stages';
import { differentiate } from 'onnx-tapir/gradients';
import {
  estimateBatchNorm,
  createTrainer,
  localGroups,
  type BatchNormMoments,
  type ProcessGroup,
} from 'onnx-tapir/train';
import { createTextEncoder } from 'onnx-tapir/features';
import { createService } from 'onnx-tapir/serve';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { readCheckpoint } from '../../src/learn/train/runs/checkpoint.js';
import { patchModel } from '../support/patches.js';
import { ERROR_CODES } from '../support/error-codes.js';
import { fixturePath, projectPath, scratchFolder, tinyResNet } from '../support/fixtures.js';
import { flatBmp } from '../support/bombs.js';
import { startServer } from '../support/file-server.js';
import { chain, modelBytes, type GraphSpec } from '../support/graphs.js';
import { writeHuggingFacePair } from '../support/text-models.js';
import { negModel } from '../support/tiny-models.js';
import { copyPhotos } from '../support/photos.js';
import { runCommand, runScript, runTapir } from '../support/run.js';
import { sha256Of, wheelNamed } from '../support/wheels.js';

const scratch = scratchFolder();
let count = 0;

function place(): string {
  const folder = join(scratch, String(count++));
  mkdirSync(folder);
  return folder;
}

function writeModel(spec: GraphSpec, name = 'model.onnx'): string {
  const path = join(place(), name);
  writeFileSync(path, modelBytes(spec));
  return path;
}

function photos(): string {
  const folder = place();
  copyPhotos(folder);
  return folder;
}

const small = { transform: createTransform({ resize: 64, crop: 64 }) };
const openSmall = () => createFeatureExtractor(tinyResNet(), { avgpool: 'v' });
const vector = (length: number) =>
  ({ dtype: 'float32', dims: [length], data: new Float32Array(length) }) as const;

const scalar = { dtype: 'float32', dims: [1], data: Float32Array.of(1) } as const;

/** A convolution of one channel with a norm folded into it, as TorchScript's exporter names it. */
function foldedModel(layer = 'conv_x'): Uint8Array {
  const node = `/${layer.replace('.', `/${layer.split('.')[0]!}.`)}/Conv`;
  return modelBytes({
    inputs: [{ name: 'x', dims: ['n', 1, 4, 4] }],
    outputs: [{ name: 'y', dims: ['n', 1, 4, 4] }],
    initializers: { 'onnx::Conv_1': { dims: [1, 1, 1, 1], values: [2] }, 'onnx::Conv_2': [1] },
    nodes: [{ op: 'Conv', name: node, inputs: ['x', 'onnx::Conv_1', 'onnx::Conv_2'], outputs: ['y'] }],
  });
}

/** The state dict of a convolution and of several norms, any of which may be the folded one. */
function foldedState(norms: readonly string[]): Map<string, TensorLike> {
  const attributes = ['weight', 'bias', 'running_mean', 'running_var'];
  const keys = norms.flatMap((norm) => attributes.map((attribute) => `${norm}.${attribute}`));
  const weight = { dims: [1, 1, 1, 1], data: Float32Array.of(3) };
  return new Map<string, TensorLike>([
    ...keys.map((key) => [key, scalar] as const),
    ['conv_x.weight', weight],
  ]);
}

/** Runs a program in another process and throws the error that it prints. */
async function thrownBy(script: string): Promise<never> {
  const { stdout, stderr } = await runScript(`
    const tapir = await import('onnx-tapir');
    try { ${script} } catch ({ code, message, details }) { console.log(JSON.stringify({ code, message, details })); }`);
  throw stdout === '' ? new Error(stderr) : JSON.parse(stdout);
}

const external = (location: string, length = 2): GraphSpec => ({
  inputs: ['x'],
  outputs: ['y'],
  initializers: { w: { dims: [length], external: { location } } },
  nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
});

/** Keeps the columns of a matrix that have a positive number in any row: how many depends on the rows. */
const columnsThatCount: GraphSpec = {
  inputs: [{ name: 'x', dims: ['n', 2] }],
  outputs: [{ name: 'y', dims: ['n', 'k'] }],
  initializers: { zero: { dims: [1], values: [0] } },
  nodes: [
    { op: 'ReduceMax', inputs: ['x'], outputs: ['m'], ints: { axes: [0], keepdims: 0 } },
    { op: 'Greater', inputs: ['m', 'zero'], outputs: ['c'] },
    { op: 'Compress', inputs: ['x', 'c'], outputs: ['y'], ints: { axis: 1 } },
  ],
};

async function pull(sha256: string | null, status: number): Promise<never> {
  const server = await startServer((_request, response) => response.writeHead(status).end('bytes'));
  const list = join(place(), 'list.json');
  const model = {
    name: 'tiny',
    description: 'a test',
    files: [{ name: 'tiny.onnx', url: `${server.url}/tiny.onnx`, sizeBytes: 5, sha256 }],
    licence: { spdx: 'MIT', url: 'https://example.org/licence' },
    transform: null,
    inputSize: [224, 224],
    nodes: [],
    note: '',
    source: 'https://example.org',
  };
  writeFileSync(list, JSON.stringify({ formatVersion: 1, models: [model] }));
  const ended = await runTapir(['models', 'pull', 'tiny', '--manifest', list, '--allow-http', '--json'], {
    env: { XDG_CACHE_HOME: place() },
  });
  throw thrownByCommand(ended);
}

/** The code in the block that the command prints. */
function thrownByCommand({ stderr }: { readonly stderr: string }): unknown {
  const code = ERROR_CODES.find((one) => new RegExp(`\\b${one}\\b`).test(stderr));
  return { code: code ?? `none in: ${stderr}`, message: stderr };
}

/** What makes each code. The type asks for all of them. */
const produce: Readonly<Record<ErrorCode, () => Promise<unknown>>> = {
  TRANSFORM_UNSUPPORTED: async () => transformFromConfig({ image_processor_type: 'NewImageProcessor' }),
  TOKENIZER_INVALID: () => {
    const tower = writeHuggingFacePair(join(scratch, 'pair'), 'clip');
    rmSync(join(scratch, 'pair/tokenizer.json'));
    return createTextEncoder(tower);
  },
  OPTION_INVALID: () => loadImage('photo.jpg', 'ImageNet22K' as never),
  MODEL_UNREADABLE: () => openModel(join(scratch, 'nowhere.onnx')),
  MODEL_MALFORMED: () => openModel(new Uint8Array([0xff, 0xff, 0xff])),
  MODEL_CHANGED: async () => {
    const path = writeModel(chain(3));
    const pruned = await pruneModel(path, ['t2']);
    writeFileSync(path, modelBytes(chain(4)));
    await pruned.bytes();
  },
  GRAPH_INVALID: () => {
    const nodes = [
      { op: 'Relu', inputs: ['b'], outputs: ['a'] },
      { op: 'Relu', inputs: ['a'], outputs: ['b'] },
    ];
    return pruneModel(modelBytes({ outputs: ['b'], nodes }), ['b']);
  },
  SETTINGS_INVALID: () => {
    const path = writeModel(chain(1));
    writeFileSync(`${path}.tapir.json`, '{"engine": "tensorrt"}');
    return findTransform(path);
  },
  NAMES_INVALID: () => openModel(writeModel(chain(1)), { names: join(scratch, 'nowhere.json') }),
  STATE_INVALID: () => readStateDict(fixturePath('parameters/bad/overlap.safetensors')),
  STATE_MISMATCH: () => loadStateDict(tinyResNet(), new Map([['other.weight', scalar]])),
  STATE_AMBIGUOUS: () => loadStateDict(foldedModel(), foldedState(['norm_a', 'norm_b'])),
  PARAMETER_FOLDED: async () => {
    const model = await openModel(foldedModel('layer.0'));
    await model
      .namedParameters()
      .find(({ name }) => name === 'layer.1.weight')!
      .read();
  },
  NORMS_UNAVAILABLE: () => estimateBatchNorm(negModel(), [], { mode: 'adabn' }),
  MOMENTS_INVALID: () =>
    estimateBatchNorm(negModel(), [], { mode: 'adabn', sourceMoments: {} as BatchNormMoments }),
  CHECKPOINT_INVALID: () => readCheckpoint(join(scratch, 'nowhere')),
  NAME_NOT_FOUND: () => pruneModel(tinyResNet(), ['layer5']),
  NAME_AMBIGUOUS: () => {
    const nodes = [
      { op: 'Relu', name: 'n', inputs: ['a'], outputs: ['p'] },
      { op: 'Relu', name: 'n', inputs: ['p'], outputs: ['q'] },
    ];
    return pruneModel(modelBytes({ inputs: ['a'], outputs: ['q'], nodes }), ['n:0']);
  },
  NAME_FOLDED: () => {
    const model = fixturePath('names/resnet50.ts.skeleton.onnx');
    return pruneModel(model, ['conv1']);
  },
  NAME_INSIDE_BODY: () => {
    const body: GraphSpec = { outputs: ['o'], nodes: [{ op: 'Relu', inputs: ['a'], outputs: ['o'] }] };
    const bodies = { then_branch: body, else_branch: body };
    const nodes = [{ op: 'If', inputs: ['c'], outputs: ['y'], bodies }];
    return pruneModel(modelBytes({ inputs: ['a', 'c'], outputs: ['y'], nodes }), ['o']);
  },
  SPLIT_IMPOSSIBLE: () => splitModel(tinyResNet(), { stages: 100 }),
  OUTPUT_NOT_TENSOR: () => {
    const nodes = [
      { op: 'SequenceConstruct', inputs: ['x'], outputs: ['s'] },
      { op: 'SequenceLength', inputs: ['s'], outputs: ['z'] },
    ];
    return createFeatureExtractor(modelBytes({ inputs: ['x'], outputs: ['z'], nodes }), ['s']);
  },
  GRADIENT_UNSUPPORTED: () => {
    const nodes = [{ op: 'Det', inputs: ['x'], outputs: ['y'] }];
    return differentiate(modelBytes({ inputs: ['x'], outputs: ['y'], nodes }), {
      of: ['y'],
      withRespectTo: ['x'],
    });
  },
  LOSS_NOT_FINITE: async () => {
    await using trainer = await createTrainer(tinyResNet(), { loss: 'cross-entropy', optimizer: 'sgd' });
    const data = new Float32Array(3 * 64 * 64).fill(Infinity);
    return await trainer.step({ input: { dims: [1, 3, 64, 64], data }, target: [0] });
  },
  OUTPUT_MISFIT: () => pruneModel(tinyResNet(), { fc: 'v' }, { tokensToMap: true }),
  FEATURE_AMBIGUOUS: () => pruneModel(patchModel(), ['tokens'], { part: 'class' }),
  INPUTS_MISSING: () => {
    const nodes = [
      { op: 'Relu', inputs: ['a'], outputs: ['p'] },
      { op: 'Add', inputs: ['p', 'b'], outputs: ['y'] },
    ];
    return pruneModel(modelBytes({ inputs: ['a', 'b'], outputs: ['y'], nodes }), ['y'], { inputs: ['p'] });
  },
  OUTPUT_NAME_TAKEN: () => pruneModel(modelBytes(chain(3)), { t2: 't1' }),
  EXTERNAL_DATA_UNSAFE: () => createFeatureExtractor(writeModel(external('../w.bin')), ['y']),
  EXTERNAL_DATA_ELSEWHERE: async () => {
    const path = writeModel(external('w.bin'));
    writeFileSync(join(path, '../w.bin'), new Uint8Array(8));
    await (await pruneModel(path, ['y'])).save(join(place(), 'cut.onnx'));
  },
  MODEL_TOO_LARGE: async () => {
    const path = writeModel(external('w.bin', 2 ** 29));
    execFileSync('truncate', ['-s', String(2 ** 31), join(path, '../w.bin')]);
    await (await pruneModel(path, ['y'])).save(join(place(), 'cut.onnx'), { weights: 'inline' });
  },
  INPUT_MISMATCH: async () => {
    await using extractor = await openSmall();
    await extractor.run(vector(3));
  },
  BATCH_FIXED: async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: [2, 3] }],
      outputs: [{ name: 'y', dims: [2, 3] }],
      nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['y'] }],
    };
    await using extractor = await createFeatureExtractor(modelBytes(spec), ['y']);
    await extractor.run({ dtype: 'float32', dims: [3, 3], data: new Float32Array(9) });
  },
  DEVICE_UNAVAILABLE: () => createFeatureExtractor(tinyResNet(), ['avgpool'], { device: 'cuda:63' }),
  SESSION_FAILED: () => {
    const nodes = [{ op: 'NoSuchOperator', inputs: ['x'], outputs: ['y'] }];
    return createFeatureExtractor(modelBytes({ inputs: ['x'], outputs: ['y'], nodes }), ['y']);
  },
  PRECISION_UNSUPPORTED: () => createFeatureExtractor(tinyResNet(), ['avgpool'], { precision: 'bfloat16' }),
  PRECISION_TOO_LOW: async () => {
    const out = join(place(), 'out');
    const folder = photos();
    await using extractor = await openSmall();
    // Simulated, because few machines have another precision: an earlier run recorded a cosine of 0.5.
    for (const name of ['precision', 'floatPrecision'])
      Object.defineProperty(extractor, name, { value: 'bfloat16' });
    await embedFolder(extractor, folder, { ...small, out });
    const journal = join(out, 'journal.jsonl');
    writeFileSync(journal, readFileSync(journal, 'utf8').replaceAll('"least":1', '"least":0.5'));
    await embedFolder(extractor, folder, { ...small, out, minCosine: 0.9 });
  },
  ENGINE_UNSUPPORTED: () =>
    createFeatureExtractor(tinyResNet(), ['avgpool'], { engine: 'openvino', device: 'cuda' }),
  RUN_FAILED: async () => {
    const nodes = [{ op: 'Add', inputs: ['a', 'b'], outputs: ['y'] }];
    const model = modelBytes({ inputs: ['a', 'b'], outputs: ['y'], nodes });
    await using extractor = await createFeatureExtractor(model, ['y']);
    await extractor.run({ a: vector(2), b: vector(3) });
  },
  LANE_DIED: () =>
    failInProcess().catch((error: unknown) => {
      throw (error as Error).cause;
    }),
  REPLICA_FAILED: () => failInProcess(),
  STAGE_FAILED: async () => {
    // The second stage reads an element that a table does not have.
    const nodes = [
      { op: 'Relu', name: 'first', inputs: ['x'], outputs: ['a'] },
      { op: 'Cast', inputs: ['a'], outputs: ['at'], ints: { to: 7 } },
      { op: 'Gather', inputs: ['table', 'at'], outputs: ['y'] },
    ];
    const model = modelBytes({ inputs: ['x'], outputs: [], initializers: { table: [1, 2, 3, 4] }, nodes });
    const devices = ['cpu:0', 'cpu:1'] as const;
    await using pipeline = await Pipeline.create(model, ['y'], { devices, cuts: ['first'] });
    await pipeline.run({ dtype: 'float32', dims: [1], data: Float32Array.of(1000) });
  },
  OUTPUT_NOT_BATCHED: async () => {
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 3] }],
      outputs: [{ name: 'y', dims: [3, 3] }],
      nodes: [
        { op: 'Transpose', inputs: ['x'], outputs: ['t'], ints: { perm: [1, 0] } },
        { op: 'MatMul', inputs: ['t', 'x'], outputs: ['y'] },
      ],
    };
    await using parallel = await createFeatureExtractor(modelBytes(spec), ['y'], {
      devices: ['cpu:0', 'cpu:1'],
    });
    await parallel.run({ dtype: 'float32', dims: [4, 3], data: new Float32Array(12) });
  },
  OUTPUT_NOT_GATHERABLE: async () => {
    const model = modelBytes(columnsThatCount, { opset: 13 });
    await using parallel = await createFeatureExtractor(model, ['y'], { devices: ['cpu:0', 'cpu:1'] });
    await parallel.run({ dtype: 'float32', dims: [2, 2], data: Float32Array.of(1, 1, 1, 0) });
  },
  CLOSED: async () => {
    const extractor = await openSmall();
    await extractor.close();
    await extractor.run({ dtype: 'float32', dims: [1, 3, 64, 64], data: new Float32Array(3 * 64 * 64) });
  },
  DEPENDENCY_MISSING: () =>
    thrownBy(`
      const { register } = await import('node:module');
      const hook = 'export async function resolve(name, context, next) { if (name === "sharp") throw new Error("it is not here"); return next(name, context); }';
      register('data:text/javascript,' + encodeURIComponent(hook));
      await tapir.loadImage(${JSON.stringify(fixturePath('preprocess/images/png_rgb_333x500.png'))});`),
  IMAGE_NOT_FOUND: () => loadImage(join(scratch, 'nowhere.jpg')),
  IMAGE_VANISHED: async () => {
    const folder = photos();
    await using extractor = await openSmall();
    // The last photos are listed long before their turn: one decoding thread reads a few images ahead.
    for await (const item of embedImages(extractor, folder, { ...small, batch: 1, decodeThreads: 1 })) {
      rmSync(join(folder, 'sea/sea-3.jpg'), { force: true });
      if ('error' in item) throw item.error as Error;
    }
  },
  IMAGE_DENIED: () => {
    const folder = photos();
    chmodSync(scratch, 0o755);
    chmodSync(join(folder, 'sea/sea-0.jpg'), 0);
    return thrownBy(`
      if (process.getuid() === 0) { process.setgid(65534); process.setuid(65534); }
      await tapir.loadImage(${JSON.stringify(join(folder, 'sea/sea-0.jpg'))});`);
  },
  IMAGE_EMPTY: () => loadImage(new Uint8Array(0)),
  PHOTOS_FAILED: async () => {
    const transform = { resize: 64, crop: 64 };
    await using extractor = await createFeatureExtractor(tinyResNet(), { avgpool: 'v' }, { transform });
    await extractor.embed([new Uint8Array(0), 'nowhere.jpg']);
  },
  IMAGE_TRUNCATED: () => loadImage(fixturePath('preprocess/bad/truncated.jpg')),
  IMAGE_UNREADABLE: () => loadImage(Buffer.from('no image at all')),
  IMAGE_MISFIT: () => {
    const config = { image_processor_type: 'Qwen2VLImageProcessor' };
    const image = flatBmp(402, 2);
    return loadImage(image, transformFromConfig(config));
  },
  SIZE_FIXED: async () => {
    const model = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 3, 'h', 'w'] }],
      outputs: [{ name: 'y', dims: ['n', 6, 4] }],
      initializers: {
        w: { dims: [4, 3, 2, 2], values: Array.from({ length: 48 }, () => 1) },
        shape: { dims: [3], values: [0, 4, -1], elemType: 'int64' },
        table: { dims: [1, 6, 4], values: Array.from({ length: 24 }, (_, i) => i) },
      },
      nodes: [
        { op: 'Conv', inputs: ['x', 'w'], outputs: ['map'], ints: { strides: [2, 2] } },
        { op: 'Reshape', inputs: ['map', 'shape'], outputs: ['rows'] },
        { op: 'Transpose', inputs: ['rows'], outputs: ['tokens'], ints: { perm: [0, 2, 1] } },
        { op: 'Add', inputs: ['tokens', 'table'], outputs: ['y'] },
      ],
    });
    await using extractor = await createFeatureExtractor(model, ['y']);
    for await (const _ of embedImages(extractor, [flatBmp(8, 8)]));
  },
  TENSOR_SEVERAL: async () => {
    const config = { image_processor_type: 'Siglip2ImageProcessor' };
    (await loadImage(flatBmp(4, 2), transformFromConfig(config))).toTensor();
  },
  IMAGE_TOO_LARGE: () => loadImage(projectPath('examples/photos/sea/sea-0.jpg'), { limitPixels: 1 } as never),
  DECODER_DIED: () =>
    thrownBy(`
      // Threads that decode end as soon as they start.
      const { Worker } = await import('node:worker_threads');
      const post = Worker.prototype.postMessage;
      Worker.prototype.postMessage = function (...given) { void this.terminate(); return post.apply(this, given); };
      const bytes = ${JSON.stringify(projectPath('examples/photos/sea/sea-0.jpg'))};
      const { DecodeLanes } = await import(${JSON.stringify(projectPath('build/modules/photos/images/lanes/decode-lanes.js'))});
      const lanes = new DecodeLanes(tapir.createTransform('ImageNet1K_V1'), 1);
      await lanes.load(bytes, new Uint8Array(new SharedArrayBuffer(224 * 224 * 3)));`),
  SOURCE_INVALID: async () => {
    await using extractor = await openSmall();
    await embedFolder(extractor, join(scratch, 'nowhere'), { ...small, out: join(place(), 'out') });
  },
  DATASET_INVALID: () => openDataset(place()),
  DOWNLOAD_FAILED: () => pull('a'.repeat(64), 404),
  CHECKSUM_MISMATCH: () => pull('a'.repeat(64), 200),
  PACKAGE_INVALID: () => {
    const wheel = join(place(), wheelNamed());
    writeFileSync(wheel, 'not a zip');
    const pinned = { filename: wheelNamed(), sha256: sha256Of(Buffer.from('not a zip')) };
    return thrownBy(`
      for (const name of ['HOME', 'XDG_CACHE_HOME', 'LOCALAPPDATA']) process.env[name] = ${JSON.stringify(place())};
      const { planInstall, runInstall } = await import(${JSON.stringify(projectPath('build/modules/learn/hub/wheels/install-engine.js'))});
      const table = new Map([[\`\${process.platform} \${process.arch}\`, [${JSON.stringify(pinned)}]]]);
      await runInstall(await planInstall('openvino', { wheel: ${JSON.stringify(wheel)} }, table));`);
  },
  OUTPUT_EXISTS: async () => {
    const out = place();
    writeFileSync(join(out, 'thesis.txt'), 'mine');
    await using extractor = await openSmall();
    await embedFolder(extractor, photos(), { ...small, out });
  },
  OUTPUT_LOCKED: async () => {
    await using extractor = await openSmall();
    const out = join(place(), 'out');
    const folder = photos();
    const both = await Promise.allSettled(
      [1, 2].map(() => embedFolder(extractor, folder, { ...small, out })),
    );
    throw both.find((one) => one.status === 'rejected')?.reason;
  },
  DATASET_MISMATCH: async () => {
    await using extractor = await openSmall();
    const out = join(place(), 'out');
    const folder = photos();
    await embedFolder(extractor, folder, { ...small, out });
    await embedFolder(extractor, folder, { transform: createTransform({ resize: 70, crop: 64 }), out });
  },
  DATASET_INCOMPLETE: async () => {
    await using extractor = await openSmall();
    const out = join(place(), 'out');
    await embedFolder(extractor, photos(), { ...small, out, shard: { index: 0, count: 2 } });
    await mergeDataset(out);
  },
  RANK_LOST: async () => {
    const [first, second] = localGroups(2);
    await second!.close();
    await first!.barrier();
  },
  RANKS_DIFFER: async () => {
    const open = (group: ProcessGroup) =>
      createTrainer(tinyResNet(), { loss: group.rank === 0 ? 'mse' : 'l1', optimizer: 'sgd', group });
    await Promise.all(localGroups(2).map(open));
  },
  LAUNCHER_INVALID: async () => {
    const options = ['--return', 'avgpool=v', '--out', join(place(), 'out'), '--shard', 'auto'];
    const model = join(place(), 'tiny.onnx');
    writeFileSync(model, tinyResNet());
    throw thrownByCommand(
      await runTapir(['embed', photos(), '--model', model, ...options], { env: { RANK: '0' } }),
    );
  },
  TOO_MANY_OPEN_FILES: () =>
    thrownBy(`
      const { openSync } = await import('node:fs');
      const photo = ${JSON.stringify(projectPath('examples/photos/sea/sea-0.jpg'))};
      // Loads the modules that it needs.
      await tapir.loadImage(photo);
      for (let isOpen = true; isOpen;) try { openSync('/dev/null') } catch { isOpen = false }
      await tapir.loadImage(photo);`),
  OUT_OF_MEMORY: async () => {
    const photo = join(scratch, 'large.png');
    const background = { r: 1, g: 2, b: 3 };
    await sharp({ create: { width: 10_000, height: 8_000, channels: 3, background } })
      .png()
      .toFile(photo);
    const code = `import('onnx-tapir').then((tapir) => tapir.loadImage(${JSON.stringify(photo)})).catch(console.error)`;
    const shell = ['-c', 'ulimit -d 300000; exec "$@"', 'sh', process.execPath, '-e', code];
    throw thrownByCommand(await runCommand('sh', shell));
  },
  TOO_MANY_FAILURES: async () => {
    const folder = photos();
    writeFileSync(join(folder, 'a.jpg'), 'no image');
    await using extractor = await openSmall();
    await embedFolder(extractor, folder, { ...small, out: join(place(), 'out'), maxFailures: 0 });
  },
  ADDRESS_UNAVAILABLE: async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    await using extractor = await openSmall();
    await using service = createService(extractor, small);
    try {
      await service.listen({ host: '127.0.0.1', port: (other.address() as AddressInfo).port });
    } finally {
      other.close();
    }
  },
  OUTPUT_UNWRITABLE: async () => {
    const file = join(place(), 'file');
    writeFileSync(file, '');
    await (await pruneModel(tinyResNet(), ['avgpool'])).save(join(file, 'cut.onnx'));
  },
};

async function failInProcess(): Promise<void> {
  const devices = ['cpu:0', 'cpu:1'] as const;
  await using parallel = await createFeatureExtractor(tinyResNet(), ['avgpool'], {
    devices,
    isolation: 'process',
  });
  const batch = { dtype: 'float32', dims: [4, 3, 64, 64], data: new Float32Array(4 * 3 * 64 * 64) } as const;
  // Stopped first: the run cannot end before the kill.
  const [pid] = parallel.replicas[1]!.pids;
  process.kill(pid!, 'SIGSTOP');
  const run = parallel.run(batch);
  setTimeout(() => process.kill(pid!, 'SIGKILL'), 50);
  await run;
}

describe('error codes', () => {
  it('are all in the list', () =>
    expect(Object.keys(produce).toSorted()).toEqual([...ERROR_CODES].toSorted()));

  it.each(Object.entries(produce))('%s', async (code, run) => {
    const error: unknown = await run().then(
      () => new Error('it worked'),
      (thrown: unknown) => thrown,
    );
    expect(error).toMatchObject({ code });
    const { message } = error as { message: string };
    expect(message).not.toBe('');
    expect(readFileSync(projectPath('docs/errors.md'), 'utf8')).toContain(`\`${code}\``);
  });
});
