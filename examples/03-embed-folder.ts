/** Embeds a folder into a dataset. Run: npx tsx examples/03-embed-folder.ts [MODEL] [OUT] */
import { createFeatureExtractor, embedFolder } from 'onnx-tapir';

const [model = 'models/resnet50-untrained.onnx', out = 'out/03-embed-folder'] = process.argv.slice(2);
await using extractor = await createFeatureExtractor(model, { avgpool: 'embedding' });
const { manifest, failures } = await embedFolder(extractor, 'examples/photos', { out, overwrite: true });

console.log(manifest.counts); // { inputs: 24, ok: 24, errors: 0 }
console.log(manifest.features); // { embedding: { folder: 'features/embedding', rows: 24, dtype: 'float32', dims: [2048] } }
for (const { path, error } of failures) console.log(`${path}: ${error.message}`);
