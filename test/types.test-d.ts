/** The types that users meet: names flow into results, wrong options do not compile. */
import { createFeatureExtractor, embedImages, type FeatureExtractor, type Tensor } from 'onnx-tapir';
import { describe, expectTypeOf, it } from 'vitest';

describe('createFeatureExtractor', () => {
  it('types results by the keys of the request', async () => {
    const record = await createFeatureExtractor('m.onnx', { layer4: 'features', avgpool: 'pooled' });
    expectTypeOf(record).toEqualTypeOf<FeatureExtractor<'features' | 'pooled'>>();
    const list = await createFeatureExtractor('m.onnx', ['layer4', 'avgpool']);
    expectTypeOf(list).toEqualTypeOf<FeatureExtractor<'layer4' | 'avgpool'>>();
    type Results = Awaited<ReturnType<typeof list.run>>;
    expectTypeOf<Results>().toEqualTypeOf<Record<'layer4' | 'avgpool', Tensor>>();
    const pairs = await createFeatureExtractor('m.onnx', [
      ['layer4', 'a'],
      ['avgpool', 'b'],
    ]);
    expectTypeOf(pairs).toEqualTypeOf<FeatureExtractor<'a' | 'b'>>();
    const map = await createFeatureExtractor('m.onnx', new Map<string, 'k'>([['layer4', 'k']]));
    expectTypeOf(map).toEqualTypeOf<FeatureExtractor<'k'>>();
  });

  it('refuses unknown options and devices', () => {
    // @ts-expect-error no such option
    void createFeatureExtractor('m.onnx', ['fc'], { devcie: 'cpu' });
    // @ts-expect-error no such device
    void createFeatureExtractor('m.onnx', ['fc'], { device: 'gpu' });
    void createFeatureExtractor('m.onnx', ['fc'], { device: undefined });
    void createFeatureExtractor('m.onnx', ['fc'], { device: 'cuda:1' });
  });
});

describe('embedImages', () => {
  it('has features or an error', async () => {
    const extractor = await createFeatureExtractor('m.onnx', { fc: 'scores' });
    for await (const item of embedImages(extractor, 'photos')) {
      if (item.error) expectTypeOf(item.features).toEqualTypeOf<undefined>();
      else expectTypeOf(item.features.scores).toEqualTypeOf<Tensor>();
    }
  });
});
