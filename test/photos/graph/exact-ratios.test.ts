/** Photo files in a runtime that computes float64 in float32, as OpenVINO does: played by a file in which every float64 is a float32. */
import onnxProto from 'onnx-proto';
import { describe, expect, it } from 'vitest';
import { createPhotoFront } from '../../../src/photos/graph/photo-front.js';
import { makeTransform } from '../../../src/photos/images/transform/transform.js';
import { madePhoto, photoFile, PhotoSession } from '../../support/photo-files.js';

const { onnx } = onnxProto;
type Graph = onnxProto.onnx.IGraphProto;
const { FLOAT, DOUBLE } = onnx.TensorProto.DataType;

/** Makes every float64 of a graph a float32. */
function makeCoarse(graph: Graph): void {
  for (const tensor of graph.initializer ?? [])
    if (tensor.dataType === DOUBLE) {
      const doubles = new Float64Array(Uint8Array.from(tensor.rawData!).buffer);
      tensor.dataType = FLOAT;
      tensor.rawData = new Uint8Array(Float32Array.from(doubles).buffer);
    }
  for (const { attribute } of graph.node ?? [])
    for (const one of attribute ?? []) {
      if (one.name === 'to' && Number(one.i) === DOUBLE) one.i = FLOAT;
      if (one.g) makeCoarse(one.g);
    }
}

function coarse(bytes: Uint8Array): Uint8Array {
  const model = onnx.ModelProto.decode(bytes);
  makeCoarse(model.graph!);
  return onnx.ModelProto.encode(model).finish();
}

const SQUARE = { height: 48, width: 52 };
const SIZES = [[1, 1], [97, 61], [3, 250], [375, 500], [48, 52]] as const; // prettier-ignore

describe('where float64 is float32', () => {
  it.each([
    { resize: 224, crop: 200 },
    { resize: SQUARE, crop: null, interpolation: 'bicubic' },
    { resize: 224, crop: 224, interpolation: 'bicubic', resampler: 'pillow-13' },
    { resize: SQUARE, crop: null, resampler: 'torch' },
    { resize: 224, crop: 200, interpolation: 'bicubic', resampler: 'torch' },
  ] as const)('the same bits: %o', async (options) => {
    const transform = makeTransform(options);
    const target = { dtype: 'float32', isLast: false, input: 'pixels', hasBatch: false } as const;
    const front = createPhotoFront(transform, target);
    const session = await PhotoSession.open(coarse(await photoFile(transform)));
    for (const [height, width] of SIZES) {
      const photo = madePhoto(height, width, height);
      const { bytes } = await session.run(photo);
      const wanted = front.tensorOf([photo]).data as Float32Array;
      expect(Buffer.compare(bytes, new Uint8Array(wanted.buffer)), `${height} × ${width}`).toBe(0);
    }
    await session.close();
  });

  it('other filters come near', async () => {
    const transform = makeTransform({ resize: 224, crop: 224, interpolation: 'lanczos' });
    const front = createPhotoFront(transform, {
      dtype: 'uint8',
      isLast: false,
      input: 'pixels',
      hasBatch: false,
    });
    const session = await PhotoSession.open(coarse(await photoFile(transform, { dtype: 'uint8' })));
    const photo = madePhoto(375, 500, 1);
    const { bytes } = await session.run(photo);
    await session.close();
    const wanted = front.tensorOf([photo]).data as Uint8Array;
    const steps = wanted.map((value, i) => Math.abs(value - bytes[i]!));
    expect(new Set(steps)).toEqual(new Set([0, 1]));
    expect(steps.reduce((sum, step) => sum + step, 0)).toBeLessThan(steps.length / 500);
  });
});
