/** Bytes in, unit vectors out, all in the graph. Run: npx tsx examples/06-parts-in-the-graph.ts [MODEL] */
import { createFeatureExtractor, describeFeatures, loadImage, verifyModel } from 'onnx-tapir';

const model = process.argv[2] ?? 'models/resnet50-untrained.onnx';
for (const { name, channels, reduction, layout } of await describeFeatures(model, ['layer3', 'layer4'])) {
  console.log(name, { channels, reduction, layout }); // layer4 { channels: 2048, reduction: 32, layout: 'NCHW' }
}

await using extractor = await createFeatureExtractor(
  model,
  { layer3: 'fine', layer4: 'coarse' },
  { input: 'image-uint8', pool: 'avg', l2Normalize: true, outputDtype: { fine: 'float16' } },
);
const photo = await loadImage('examples/photos/dunes/dunes-0.jpg', 'ImageNet1K_V1');
const dims = [1, photo.height, photo.width, 3];
const { fine, coarse } = await extractor.run({ dtype: 'uint8', dims, data: photo.data });
console.log('fine', fine.dtype, fine.dims, 'coarse', coarse.dtype, coarse.dims); // float16 [1, 1024], float32 [1, 2048]

const { isEqual } = await verifyModel(extractor.model);
console.log(isEqual ? 'equal to the full graph, bit for bit' : 'differs from the full graph');
