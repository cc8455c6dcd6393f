/**
 * What one writes first: sharp squeezes each photo to 224×224, a loop normalises it, onnxruntime-node runs the batch; one after the other.
 *
 *     node peer_naive.js MODEL PHOTOS OUT BATCH THREADS NAMES
 *
 * NAMES: what the model's outputs are called in OUT, with commas between them.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import * as ort from 'onnxruntime-node';
import sharp from 'sharp';
import { saveNpy } from './npy.js';

const [model, photos, out, batch, threads, names] = process.argv.slice(2);
const SIDE = 224;
const AREA = SIDE * SIDE;
const MEAN = [0.485, 0.456, 0.406];
const STD = [0.229, 0.224, 0.225];

const session = await ort.InferenceSession.create(model, { intraOpNumThreads: Number(threads) });
const files = readdirSync(photos).toSorted();
const results = [];
for (let at = 0; at < files.length; at += Number(batch)) {
  const group = files.slice(at, at + Number(batch));
  const input = new Float32Array(group.length * 3 * AREA);
  for (const [row, name] of group.entries()) {
    const pixels = await sharp(join(photos, name)).resize(SIDE, SIDE).removeAlpha().raw().toBuffer();
    for (let i = 0; i < AREA; i++)
      for (let c = 0; c < 3; c++)
        input[(row * 3 + c) * AREA + i] = (pixels[3 * i + c] / 255 - MEAN[c]) / STD[c];
  }
  const tensor = new ort.Tensor('float32', input, [group.length, 3, SIDE, SIDE]);
  results.push(await session.run({ [session.inputNames[0]]: tensor }));
}
for (const [i, name] of names.split(',').entries()) {
  const tensors = results.map((result) => result[session.outputNames[i]]);
  const [, channels, ...rest] = tensors[0].dims;
  const dims = rest.every((size) => size === 1) ? [channels] : [channels, ...rest];
  const chunks = tensors.map(({ data }) => data);
  saveNpy(join(out, `${name}.npy`), [files.length, ...dims], chunks);
}
console.log(JSON.stringify({ n: files.length }));
