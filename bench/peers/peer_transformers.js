/**
 * transformers.js: the image-feature-extraction pipeline's own two steps, processor and model, on batches, so that both outputs come out
 * of one run (the pipeline's call returns one of them).
 *
 *     node peer_transformers.js MODELS PHOTOS OUT BATCH THREADS ENTRY
 *
 * MODELS is a folder with `resnet50/` in it as on the Hub, ENTRY the package's main module, which is no dependency of this project.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { saveNpy } from './npy.js';

const [models, photos, out, batch, threads, entry] = process.argv.slice(2);
const { env, pipeline, RawImage } = await import(pathToFileURL(entry).href);
env.allowRemoteModels = false;
env.localModelPath = `${models}/`;

const options = { dtype: 'fp32', device: 'cpu', session_options: { intraOpNumThreads: Number(threads) } };
const extractor = await pipeline('image-feature-extraction', 'resnet50', options);
const files = readdirSync(photos).toSorted();
const layer4 = [];
const avgpool = [];
for (let at = 0; at < files.length; at += Number(batch)) {
  const names = files.slice(at, at + Number(batch));
  const images = await Promise.all(names.map((name) => RawImage.read(join(photos, name))));
  const results = await extractor.model(await extractor.processor(images));
  layer4.push(results.last_hidden_state.data);
  avgpool.push(results.pooler_output.data);
}
saveNpy(join(out, 'layer4.npy'), [files.length, 2048, 7, 7], layer4);
saveNpy(join(out, 'avgpool.npy'), [files.length, 2048], avgpool);
console.log(JSON.stringify({ n: files.length }));
