/** A photo file → its vector. */
import * as ort from 'onnxruntime-web';

ort.env.wasm.numThreads = 1;
ort.env.wasm.wasmPaths = new URL('./ort/', import.meta.url).href;

/** Opens a file that `tapir extract --input photo` wrote. */
export function openModel(url) {
  return ort.InferenceSession.create(url, { executionProviders: ['wasm'] });
}

/** The pixels of an image file: RGB bytes, row by row. Colour profiles are not applied. */
export async function decode(file) {
  const bitmap = await createImageBitmap(file, { colorSpaceConversion: 'none', premultiplyAlpha: 'none' });
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext('2d');
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  const { data } = context.getImageData(0, 0, width, height);
  const rgb = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; from < data.length; from += 4) {
    rgb[to++] = data[from];
    rgb[to++] = data[from + 1];
    rgb[to++] = data[from + 2];
  }
  return { width, height, rgb };
}

/** The vector of a decoded photo, of length 1. */
export async function embed(session, { width, height, rgb }) {
  const photo = new ort.Tensor('uint8', rgb, [height, width, 3]);
  const outputs = await session.run({ photo });
  const vector = Float32Array.from(outputs[session.outputNames[0]].data);
  const norm = Math.hypot(...vector);
  return vector.map((value) => value / norm);
}

/** The cosine of two vectors of length 1. */
export function cosine(a, b) {
  return a.reduce((sum, value, i) => sum + value * b[i], 0);
}
