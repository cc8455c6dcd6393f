/**
 * What one writes first: sharp squeezes each photo to 224×224, a loop normalises it, onnxruntime-node runs the batch; one after the other.
 *
 *     node peer_naive.js MODEL PHOTOS OUT BATCH THREADS
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import * as ort from 'onnxruntime-node';
import sharp from 'sharp';
import { saveNpy } from './npy.js';

const [model, photos, out, batch, threads] = process.argv.slice(2);
const SIDE = 224;
const AREA = SIDE * SIDE;
const MEAN = [0.485, 0.456, 0.406];
const STD = [0.229, 0.224, 0.225];

const session = await ort.InferenceSession.create(model, { intraOpNumThreads: Number(threads) });
const files = readdirSync(photos).toSorted();
const layer4 = [];
const avgpool = [];
for (let at = 0; at < files.length; at += Number(batch)) {
  const names = files.slice(at, at + Number(batch));
  const input = new Float32Array(names.length * 3 * AREA);
  for (const [row, name] of names.entries()) {
    const pixels = await sharp(join(photos, name)).resize(SIDE, SIDE).removeAlpha().raw().toBuffer();
    for (let i = 0; i < AREA; i++)
      for (let c = 0; c < 3; c++)
        input[(row * 3 + c) * AREA + i] = (pixels[3 * i + c] / 255 - MEAN[c]) / STD[c];
  }
  const results = await session.run({
    pixel_values: new ort.Tensor('float32', input, [names.length, 3, SIDE, SIDE]),
  });
  layer4.push(results.last_hidden_state.data);
  avgpool.push(results.pooler_output.data);
}
saveNpy(join(out, 'layer4.npy'), [files.length, 2048, 7, 7], layer4);
saveNpy(join(out, 'avgpool.npy'), [files.length, 2048], avgpool);
console.log(JSON.stringify({ n: files.length }));
