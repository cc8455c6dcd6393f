/** Embeds as the command does, and saves each batch: `model source out format`. Ends with 1 if inputs failed, as the command does. */
import { createFeatureExtractor, embedFolder } from 'onnx-tapir';

const [model, source, out, format] = process.argv.slice(2);
const extractor = await createFeatureExtractor(model, { y: 'f', pooled: 'p' });
const { failed } = await embedFolder(extractor, source, {
  out,
  format,
  batch: 2,
  shardSize: 4,
  shardSeconds: 0,
  removeMissing: true,
});
await extractor.close();
process.exitCode = failed > 0 ? 1 : 0;
