/** All functions of the package, and methods of its objects, with arguments that they take: cheap ones that change nothing. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as tapir from './tapir.js';
import { fixturePath, scratchFolder } from './fixtures.js';
import { copyPhotos } from './photos.js';
import { smallNet, SMALL_SIZE } from './small-net.js';

/** A function, and arguments that it takes. What comes back is closed. */
export interface PublicCall {
  readonly call: (...args: never[]) => unknown;
  readonly good: readonly unknown[];
}

/** Methods and classes beside the functions. */
type Calls = Readonly<Record<string, PublicCall>>;

/** The names of all functions and classes that the package exports. */
export const exportedNames: readonly string[] = Object.entries(tapir)
  .filter(([, value]) => typeof value === 'function')
  .map(([name]) => name);

/** Opens what the calls need. `close` ends its sessions. */
export async function openPublicCalls(): Promise<{ calls: Calls; close: () => Promise<void> }> {
  const folder = scratchFolder();
  const at = (name: string): string => join(folder, name);
  writeFileSync(at('small.onnx'), smallNet());
  mkdirSync(at('empty'));
  copyPhotos(at('photos'));
  const transform = { resize: SMALL_SIZE, crop: SMALL_SIZE };
  const model = await tapir.openModel(at('small.onnx'));
  const pruned = await tapir.pruneModel(model, ['fc']);
  const extractor = await tapir.createFeatureExtractor(model, ['fc']);
  const parallel = await tapir.DataParallel.create(extractor, { devices: ['cpu'] });
  const pipeline = await tapir.Pipeline.create(model, ['fc'], { devices: ['cpu:0', 'cpu:1'] });
  const training = {
    loss: 'cross-entropy',
    optimizer: { kind: 'sgd', lr: 0.1 },
    parameters: ['fc'],
  } as const;
  const trainer = await tapir.createTrainer(model, training);
  const attribution = await tapir.createAttribution(model, { layer: 'relu' });
  const exits = { exits: [{ node: 'fc', until: { confidence: 0.5 } }] };
  const early = await tapir.createEarlyExit(model, ['fc'], exits);
  await tapir.embedFolder(extractor, at('photos'), { out: at('vectors'), transform });
  const dataset = await tapir.openDataset(at('vectors'));
  const probe = await tapir.trainProbe(dataset, 'by-folder', { kind: 'centroid' });
  await tapir.saveProbe(probe, at('probe.json'));
  const search = await tapir.openSearch(dataset);
  const service = tapir.createService(extractor, { transform });
  const pixels = tapir.createTransform(transform);
  const photo = join(fixturePath('preprocess'), 'nothing.jpg');
  const image = await tapir.loadImage(at('photos/dunes/dunes-0.jpg'), pixels).catch(() => undefined);
  const batch = {
    dtype: 'float32',
    dims: [1, 3, SMALL_SIZE, SMALL_SIZE],
    data: new Float32Array(3 * SMALL_SIZE ** 2),
  };
  const state = new Map([['fc.bias', { dtype: 'float32', dims: [6], data: new Float32Array(6) }]]);
  const moments = (await tapir.measureMoments(model, [batch] as never)).moments;
  const nowhere = at('nothing/file');
  const offline = { endpoint: 'http://127.0.0.1:9', attempts: 1, retryDelayMs: 0, cacheDir: at('cache') };
  const call = (call: PublicCall['call'], ...good: unknown[]): PublicCall => ({ call, good });
  const bound = (owner: object | undefined, method: string, ...good: unknown[]): PublicCall => ({
    call: (...args) => (Reflect.get(owner!, method) as (...args: never[]) => unknown).apply(owner, args),
    good,
  });
  const made =
    (kind: unknown): PublicCall['call'] =>
    (...args) =>
      Reflect.construct(kind as () => void, args) as unknown;
  const calls: Calls = {
    addPyramid: call(tapir.addPyramid, model, { layer1: '0' }, { seed: 1 }),
    attachProbe: call(tapir.attachProbe, model, probe),
    attribute: call(tapir.attribute, model, batch, { layer: 'nothing' }),
    chooseEngine: call(tapir.chooseEngine, pruned, at('empty'), { transform }),
    chunkSizes: call(tapir.chunkSizes, 3, 2),
    collateImages: call(tapir.collateImages, [image]),
    checkProbe: call(tapir.checkProbe, probe),
    classifyImages: call(tapir.classifyImages, at('small.onnx'), nowhere, {}),
    classifyByWords: call(tapir.classifyByWords, nowhere, ['a.jpg'], ['a', 'b']),
    classifyZeroShot: call(tapir.classifyZeroShot, dataset, ['a', 'b'], { model: nowhere }),
    compareModels: call(tapir.compareModels, model, model, nowhere),
    createAttribution: call(tapir.createAttribution, model, { layer: 'relu', method: 'eigen-cam' }),
    createEarlyExit: call(tapir.createEarlyExit, model, ['fc'], exits),
    createFeatureExtractor: call(tapir.createFeatureExtractor, model, ['fc'], {}),
    createModel: call(tapir.createModel, 'squeezenet1_1', { numClasses: 2 }),
    createService: call(tapir.createService, extractor, {}),
    createTextEncoder: call(tapir.createTextEncoder, at('small.onnx'), {}),
    createTrainer: call(tapir.createTrainer, model, training),
    createTransform: call(tapir.createTransform, transform),
    DataParallel: call(made(tapir.DataParallel), extractor),
    'DataParallel.create': call(tapir.DataParallel.create.bind(tapir.DataParallel), extractor, {
      devices: ['cpu'],
    }),
    differentiate: call(tapir.differentiate, model, { of: ['fc'], withRespectTo: ['input'] }),
    joinGroup: call(tapir.joinGroup),
    localGroups: call(tapir.localGroups, 2),
    distributedSampler: call(tapir.distributedSampler, 10, { rank: 0, worldSize: 2 }),
    drawFeatures: call(tapir.drawFeatures, {
      dtype: 'float32',
      dims: [1, 3, 2, 2],
      data: new Float32Array(12),
    }),
    drawHeatmap: call(
      tapir.drawHeatmap,
      image,
      { dtype: 'float32', dims: [SMALL_SIZE, SMALL_SIZE], data: new Float32Array(SMALL_SIZE ** 2) },
      {},
    ),
    embedFolder: call(tapir.embedFolder, extractor, at('empty'), { out: at('out'), transform }),
    embedImages: call(tapir.embedImages, extractor, at('empty'), { transform }),
    embedStream: call(tapir.embedStream, extractor, { transform }),
    embedTransformStream: call(tapir.embedTransformStream, extractor, { transform }),
    encodeLabels: call(tapir.encodeLabels, {}, ['a'], {}),
    estimateBatchNorm: call(tapir.estimateBatchNorm, model, [batch], { mode: 'adabn' }),
    describeFeatures: call(tapir.describeFeatures, model, ['fc']),
    FeatureExtractor: call(made(tapir.FeatureExtractor), extractor),
    findDuplicates: call(tapir.findDuplicates, dataset, {}),
    findTransform: call(tapir.findTransform, at('small.onnx'), {}),
    getGraphNodeNames: call(tapir.getGraphNodeNames, model),
    isTapirError: call(tapir.isTapirError, new Error('x'), 'CLOSED'),
    listDevices: call(tapir.listDevices),
    listKnownModels: call(tapir.listKnownModels, {}),
    listModels: call(tapir.listModels, '*'),
    loadClip: call(tapir.loadClip, [photo], transform, {}),
    loadImage: call(tapir.loadImage, photo, transform),
    loadTiles: call(tapir.loadTiles, photo, { resize: null, crop: null }, { size: 64 }),
    loadStateDict: call(tapir.loadStateDict, model, state, { strict: false }),
    lowerPrecision: call(tapir.lowerPrecision, model, { precision: 'float16' }),
    measureMoments: call(tapir.measureMoments, model, [batch], {}),
    mergeBatchNorm: call(tapir.mergeBatchNorm, model, [moments], {}),
    mergeDataset: call(tapir.mergeDataset, at('empty'), {}),
    openDataset: call(tapir.openDataset, at('vectors')),
    openModel: call(tapir.openModel, at('small.onnx'), {}),
    openSearch: call(tapir.openSearch, dataset, {}),
    Pipeline: call(made(tapir.Pipeline), pipeline),
    'Pipeline.create': call(tapir.Pipeline.create.bind(tapir.Pipeline), model, ['fc'], {
      devices: ['cpu:0', 'cpu:1'],
    }),
    predictProbe: call(tapir.predictProbe, probe, new Float32Array(6)),
    profileModel: call(tapir.profileModel, model, {}),
    pruneModel: call(tapir.pruneModel, model, ['fc'], {}),
    pullModel: call(tapir.pullModel, 'a/b', offline),
    pullTimm: call(tapir.pullTimm, 'timm/resnet18', offline),
    pullTorchvision: call(tapir.pullTorchvision, 'torchvision/resnet18', offline),
    quantizeModel: call(tapir.quantizeModel, model, at('empty'), {}),
    readProbe: call(tapir.readProbe, at('probe.json')),
    readStateDict: call(tapir.readStateDict, at('nothing.pth'), {}),
    saveProbe: call(tapir.saveProbe, probe, nowhere, {}),
    searchDataset: call(tapir.searchDataset, dataset, [new Float32Array(6)], {}),
    splitModel: call(tapir.splitModel, model, { stages: 2 }, {}),
    TapirError: call(made(tapir.TapirError)),
    trainFolder: call(tapir.trainFolder, model, at('empty'), { out: at('run') }),
    trainProbe: call(tapir.trainProbe, dataset, 'by-folder', { kind: 'centroid' }),
    transformFromConfig: call(tapir.transformFromConfig, transform, {}),
    verifyModel: call(tapir.verifyModel, pruned, {}),
    writeExplorer: call(tapir.writeExplorer, model, nowhere, {}),
    writeReport: call(tapir.writeReport, dataset, { out: nowhere }),
    writeStateDict: call(tapir.writeStateDict, nowhere, state, {}),
    'attribution.run': bound(attribution, 'run', batch, {}),
    'dataset.blocks': bound(dataset, 'blocks', 'fc', {}),
    'early.run': bound(early, 'run', batch, {}),
    'early.anytime': bound(early, 'anytime', batch, {}),
    'early.fit': bound(early, 'fit', [batch], { by: 'confidence', shares: [0.5] }),
    'extractor.run': bound(extractor, 'run', batch, {}),
    'image.transform': bound(pixels, 'with', {}),
    'model.save': bound(model, 'save', nowhere, {}),
    'model.withParameters': bound(model, 'withParameters', {}),
    'parallel.rowsPerDevice': bound(parallel, 'rowsPerDevice', 3),
    'parallel.run': bound(parallel, 'run', batch, {}),
    'pipeline.run': bound(pipeline, 'run', batch, {}),
    'pruned.save': bound(pruned, 'save', nowhere, {}),
    'search.search': bound(search, 'search', [new Float32Array(6)], {}),
    'service.listen': bound(service, 'listen', { port: 0 }),
    'trainer.evaluate': bound(trainer, 'evaluate', [{ input: batch, target: [0] }], {}),
    'trainer.resume': bound(trainer, 'resume', nowhere),
    'trainer.save': bound(trainer, 'save', '/proc/nothing/run', {}),
    'trainer.step': bound(trainer, 'step', { input: batch, target: [0] }, {}),
    'transform.apply': bound(pixels, 'apply', { width: 2, height: 2, data: new Uint8Array(12) }),
    'transform.applyFloat': bound(pixels, 'applyFloat', { width: 2, height: 2, data: new Uint8Array(12) }),
  };
  const open = [search, service, pipeline, parallel, extractor, attribution, trainer, early];
  return {
    calls,
    close: async () => {
      for (const one of open) await one?.close();
    },
  };
}
