/**
 * What decoding alone reaches on all cores: files → pixels of 224×224, as `tapir embed` does it. `measureEmbedding` also runs the
 * model; this takes its figures of decoding only.
 *
 *     node peer_limit_decode.js MODEL PHOTOS
 */
import { measureEmbedding } from '../../build/modules/cli/measure/measure-embedding.js';
import { createFeatureExtractor, openModel } from '../../build/modules/index.js';

const SECONDS = 1;

const [file, photos] = process.argv.slice(2);
const { outputs } = await openModel(file);
const extractor = await createFeatureExtractor(
  file,
  outputs.map(({ name }) => name),
);
const options = { transform: 'ImageNet1K_V2', seconds: SECONDS, rounds: 1, batch: 8 };
const { decode } = await measureEmbedding(extractor, photos, options);
await extractor.close();
const n = Math.round(decode.imagesPerSecond * SECONDS);
const loopS = n / decode.imagesPerSecond;
console.log(JSON.stringify({ n, loopS, loopCpuS: n * decode.cpuSecondsPerImage }));
