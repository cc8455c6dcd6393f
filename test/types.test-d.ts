/** The types that users meet: names flow into results, wrong options do not compile. */
import {
  createFeatureExtractor,
  DataParallel,
  embedImages,
  embedStream,
  loadImage,
  pruneModel,
  type Device,
  type DType,
  type Extractor,
  type FeatureExtractor,
  type FeatureExtractorOptions,
  type ImageSource,
  type Tensor,
  type TensorLike,
  type TransformLike,
} from 'onnx-tapir';
import { Pipeline } from 'onnx-tapir/stages';
import { describe, expectTypeOf, it } from 'vitest';

describe('createFeatureExtractor', () => {
  it('types results by the keys of the request', async () => {
    const record = await createFeatureExtractor('m.onnx', { layer4: 'features', avgpool: 'pooled' });
    expectTypeOf(record).toEqualTypeOf<FeatureExtractor<'features' | 'pooled'>>();
    const list = await createFeatureExtractor('m.onnx', ['layer4', 'avgpool']);
    expectTypeOf(list).toEqualTypeOf<FeatureExtractor<'layer4' | 'avgpool'>>();
    type Results = Awaited<ReturnType<typeof list.run>>;
    expectTypeOf<Results>().toEqualTypeOf<Record<'layer4' | 'avgpool', Tensor<'float32'>>>();
    expectTypeOf<Results['layer4']['data']>().toEqualTypeOf<Float32Array>();
    const pairs = await createFeatureExtractor('m.onnx', [
      ['layer4', 'a'],
      ['avgpool', 'b'],
    ]);
    expectTypeOf(pairs).toEqualTypeOf<FeatureExtractor<'a' | 'b'>>();
    const map = await createFeatureExtractor('m.onnx', new Map<string, 'k'>([['layer4', 'k']]));
    expectTypeOf(map).toEqualTypeOf<FeatureExtractor<'k'>>();
  });

  it('is data-parallel on several devices, and whatever options say that are not known', async () => {
    const parallel = await createFeatureExtractor('m.onnx', { fc: 'y' }, { devices: ['cuda:0', 'cuda:1'] });
    expectTypeOf(parallel).toEqualTypeOf<DataParallel<'y'>>();
    expectTypeOf(parallel.module).toEqualTypeOf<FeatureExtractor<'y'>>();
    expectTypeOf(await createFeatureExtractor(parallel, ['fc'])).toEqualTypeOf<DataParallel<'fc'>>();
    const options: Partial<FeatureExtractorOptions> = {};
    const either = await createFeatureExtractor('m.onnx', ['fc'], options);
    expectTypeOf(either).toEqualTypeOf<FeatureExtractor<'fc', DType> | DataParallel<'fc', DType>>();
    expectTypeOf(either).toExtend<Extractor<'fc'>>();
    const single = await createFeatureExtractor('m.onnx', { fc: 'y' });
    expectTypeOf(await DataParallel.create(single)).toEqualTypeOf<DataParallel<'y'>>();
    // @ts-expect-error no such split
    void parallel.run({ dtype: 'float32', dims: [0], data: new Float32Array() }, { split: 'even' });
  });

  it('follows options that are chosen at run time', async () => {
    const device = undefined as 'cpu' | undefined;
    expectTypeOf(await createFeatureExtractor('m.onnx', ['fc'], { device })).toEqualTypeOf<
      FeatureExtractor<'fc'>
    >();
    const places = [{ device: 'cpu' }, { devices: ['cpu:0', 'cpu:1'] }, { engine: 'openvino' }] as const;
    for (const place of places)
      expectTypeOf(await createFeatureExtractor('m.onnx', ['fc'], place)).toEqualTypeOf<
        FeatureExtractor<'fc'> | DataParallel<'fc'>
      >();
    const parallel = await createFeatureExtractor('m.onnx', ['fc'], { devices: ['cpu:0', 'cpu:1'] });
    expectTypeOf(await createFeatureExtractor(parallel, ['a'], { device })).toEqualTypeOf<
      FeatureExtractor<'a'> | DataParallel<'a'>
    >();
    expectTypeOf(await createFeatureExtractor(parallel as Extractor<'fc'>)).toEqualTypeOf<
      FeatureExtractor<'fc', DType> | DataParallel<'fc', DType>
    >();
    const isParallel = Math.random() < 0.5;
    const chosen = isParallel ? { devices: ['cpu:0', 'cpu:1'] as Device[] } : {};
    expectTypeOf(await createFeatureExtractor('m.onnx', ['fc'], chosen)).toEqualTypeOf<
      FeatureExtractor<'fc'> | DataParallel<'fc'>
    >();
  });

  it('takes an extractor or a pruned model, with names or as it is', async () => {
    const single = await createFeatureExtractor('m.onnx', { fc: 'y' });
    expectTypeOf(await createFeatureExtractor(single, { layer4: 'z' })).toEqualTypeOf<
      FeatureExtractor<'z'>
    >();
    expectTypeOf(await createFeatureExtractor(single)).toEqualTypeOf<FeatureExtractor<'y'>>();
    expectTypeOf(await createFeatureExtractor(single, undefined, { devices: ['cpu:0'] })).toEqualTypeOf<
      DataParallel<'y'>
    >();
    const parallel = await DataParallel.create(single);
    expectTypeOf(await createFeatureExtractor(parallel)).toEqualTypeOf<DataParallel<'y'>>();
    expectTypeOf(await createFeatureExtractor(parallel, ['fc'], { device: 'cpu' })).toEqualTypeOf<
      FeatureExtractor<'fc'>
    >();
    const pruned = await pruneModel('m.onnx', ['fc']);
    expectTypeOf(await createFeatureExtractor(pruned)).toEqualTypeOf<FeatureExtractor>();
    expectTypeOf(await createFeatureExtractor(pruned, ['fc'])).toEqualTypeOf<FeatureExtractor<'fc'>>();
    expectTypeOf(await createFeatureExtractor('m.onnx')).toEqualTypeOf<FeatureExtractor>();
    expectTypeOf(
      await createFeatureExtractor('m.onnx', undefined, { devices: 'all' }),
    ).toEqualTypeOf<DataParallel>();
  });

  it('types the elements of outputs where an option states them', async () => {
    const half = await createFeatureExtractor('m.onnx', { fc: 'y' }, { outputDtype: 'float16' });
    expectTypeOf(half).toEqualTypeOf<FeatureExtractor<'y', 'float16'>>();
    expectTypeOf(half).toExtend<Extractor>();
    const full = await createFeatureExtractor('m.onnx', ['fc'], { devices: ['cpu'], outputDtype: 'float32' });
    const { fc } = await full.run({ dims: [0], data: new Float32Array() });
    expectTypeOf(fc.data).toEqualTypeOf<Float32Array>();
    expectTypeOf((await (await DataParallel.create(half)).run({})).y).toEqualTypeOf<Tensor<'float16'>>();
    for await (const { fc: each } of full.map([])) expectTypeOf(each.data).toEqualTypeOf<Float32Array>();
    const some = await createFeatureExtractor('m.onnx', ['fc'], { outputDtype: { fc: 'float32' } });
    expectTypeOf(some).toEqualTypeOf<FeatureExtractor<'fc', DType>>();
    const kept = await createFeatureExtractor('m.onnx', ['fc'], { outputDtype: 'keep' });
    expectTypeOf(kept).toEqualTypeOf<FeatureExtractor<'fc', DType>>();
    expectTypeOf(kept).toExtend<Extractor<'fc'>>();
    expectTypeOf((await kept.run({})).fc).toEqualTypeOf<Tensor>();
    expectTypeOf(await createFeatureExtractor(kept)).toEqualTypeOf<FeatureExtractor<'fc', DType>>();
    expectTypeOf(await createFeatureExtractor(kept, ['a'])).toEqualTypeOf<FeatureExtractor<'a'>>();
    const asItIs = await createFeatureExtractor(await pruneModel('m.onnx', ['fc']), undefined, {
      outputDtype: 'keep',
    });
    expectTypeOf(asItIs).toEqualTypeOf<FeatureExtractor<string, DType>>();
    const dtype = undefined as 'keep' | undefined;
    expectTypeOf(await createFeatureExtractor('m.onnx', ['fc'], { outputDtype: dtype })).toEqualTypeOf<
      FeatureExtractor<'fc', DType>
    >();
  });

  it('types the elements of pipelines and streams', async () => {
    const devices = ['cpu:0', 'cpu:1'] as const;
    const pipeline = await Pipeline.create('m.onnx', { fc: 'y' }, { devices });
    expectTypeOf(pipeline).toEqualTypeOf<Pipeline<'y'>>();
    expectTypeOf((await pipeline.run({})).y.data).toEqualTypeOf<Float32Array>();
    const kept = await Pipeline.create('m.onnx', { fc: 'y' }, { devices, outputDtype: 'keep' });
    expectTypeOf(kept).toEqualTypeOf<Pipeline<'y', DType>>();
    // @ts-expect-error no such option
    void Pipeline.create('m.onnx', { fc: 'y' }, { devices, outputDType: 'keep' });
    for await (const { features } of embedStream(pipeline))
      expectTypeOf(features!.y.data).toEqualTypeOf<Float32Array>();
  });

  it('refuses unknown options and devices', () => {
    // @ts-expect-error no such option
    void createFeatureExtractor('m.onnx', ['fc'], { devcie: 'cpu' });
    // @ts-expect-error no such option beside known ones
    void createFeatureExtractor('m.onnx', ['fc'], { device: 'cpu', isolatoin: 'process' });
    // @ts-expect-error no such device
    void createFeatureExtractor('m.onnx', ['fc'], { device: 'gpu' });
    void createFeatureExtractor('m.onnx', ['fc'], { device: undefined });
    void createFeatureExtractor('m.onnx', ['fc'], { device: 'cuda:1' });
  });
});

describe('Tensor', () => {
  it('is narrowed by its dtype', () => {
    const narrow = (tensor: Tensor): void => {
      if (tensor.dtype === 'float32') expectTypeOf(tensor.data).toEqualTypeOf<Float32Array>();
      else if (tensor.dtype === 'int64') expectTypeOf(tensor.data).toEqualTypeOf<BigInt64Array>();
      else if (tensor.dtype === 'string') expectTypeOf(tensor.data).toEqualTypeOf<string[]>();
    };
    narrow({ dtype: 'float32', dims: [0], data: new Float32Array() });
    // @ts-expect-error an array of another element type
    narrow({ dtype: 'float32', dims: [0], data: new Float64Array() });
    expectTypeOf<Tensor<'float32'>['data']>().toEqualTypeOf<Float32Array>();
    expectTypeOf<Tensor<'float32'>>().toExtend<Tensor>();
    expectTypeOf<Tensor<'float32' | 'int64'>['data']>().toEqualTypeOf<Float32Array | BigInt64Array>();
  });

  it('may be fed without a dtype', () => {
    expectTypeOf<{ dims: number[]; data: Float32Array }>().toExtend<TensorLike>();
    expectTypeOf<Tensor>().toExtend<TensorLike>();
  });
});

describe('embedImages', () => {
  it('has features or an error', async () => {
    const extractor = await createFeatureExtractor('m.onnx', { fc: 'scores' });
    for await (const item of embedImages(extractor, 'photos')) {
      if (item.error) expectTypeOf(item.features).toEqualTypeOf<undefined>();
      else expectTypeOf(item.features.scores.data).toEqualTypeOf<Float32Array>();
    }
    const kept = await createFeatureExtractor('m.onnx', { fc: 'ids' }, { outputDtype: 'keep' });
    for await (const { features } of embedImages(kept, 'photos'))
      if (features) expectTypeOf(features.ids).toEqualTypeOf<Tensor>();
  });
});

describe('loadImage', () => {
  it('takes images of many kinds, and a transform, its name or its options', () => {
    expectTypeOf<
      string | URL | Uint8Array | Buffer | Blob | Response | ReadableStream<Uint8Array>
    >().toExtend<ImageSource>();
    expectTypeOf(loadImage).parameter(0).toEqualTypeOf<ImageSource>();
    expectTypeOf(loadImage).parameter(1).toEqualTypeOf<TransformLike | undefined>();
    expectTypeOf<'Squash224'>().toExtend<TransformLike>();
    expectTypeOf<{ resize: 384; crop: { height: 1; width: 2 }; mean: undefined }>().toExtend<TransformLike>();
    expectTypeOf<{ size: 384 }>().not.toExtend<TransformLike>();
    expectTypeOf<'torchvision:ResNet50_Weights.DEFAULT'>().toExtend<TransformLike>();
    expectTypeOf<number>().not.toExtend<ImageSource>();
  });
});
