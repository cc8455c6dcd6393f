/** Takes a feature map and a pooled vector of one photo. Run: npx tsx examples/02-extract-features.ts [MODEL] */
import { createFeatureExtractor, loadImage } from 'onnx-tapir';

const model = process.argv[2] ?? 'models/resnet50-untrained.onnx';
await using extractor = await createFeatureExtractor(model, { layer4: 'features', avgpool: 'pooled' });
for (const { name, tensor, dims, channels, reduction } of extractor.outputs) {
  console.log(name, tensor, dims, { channels, reduction });
}

const photo = await loadImage('examples/photos/dunes/dunes-0.jpg', 'ImageNet1K_V1');
const { features, pooled } = await extractor.run(photo.toTensor());
console.log('features', features.dims, 'pooled', pooled.dims); // features [1, 2048, 7, 7] pooled [1, 2048, 1, 1]
