/** Patches of an image, in the orders of NaFlex and of Qwen-VL. */
import { describe, expect, it } from 'vitest';
import { cutPatches, patchLength, type PatchLayout } from '../../../src/onnx/tensor/cut-patches.js';
import { fillFeed, ownImages, takeImages, type SharedPatches } from '../../../src/onnx/tensor/image-feed.js';

/** The value of a byte is the byte, with the channel as hundreds. */
const values = Float32Array.from({ length: 768 }, (_, i) => Math.floor(i / 256) * 100 + (i % 256));
/** Pixels that count from 0; their three channels are alike. */
const image = (height: number, width: number) => ({
  height,
  width,
  data: Uint8Array.from({ length: height * width * 3 }, (_, i) => Math.floor(i / 3)),
});
const NAFLEX: PatchLayout = { size: 2, merge: 1, frames: 1, isLast: true };
const QWEN: PatchLayout = { size: 1, merge: 2, frames: 2, isLast: false };

describe('patches', () => {
  it('go row by row, with the channels last, for NaFlex', () => {
    const into = new Float32Array(2 * patchLength(NAFLEX));
    cutPatches(image(2, 4), NAFLEX, values, into);
    expect([...into]).toEqual([0, 1, 4, 5, 2, 3, 6, 7].flatMap((pixel) => [pixel, 100 + pixel, 200 + pixel]));
  });

  it('go block by block, each channel as often as there are frames, for Qwen', () => {
    const into = new Float32Array(8 * patchLength(QWEN));
    cutPatches(image(2, 4), QWEN, values, into);
    const order = [0, 1, 4, 5, 2, 3, 6, 7];
    expect([...into]).toEqual(
      order.flatMap((pixel) => [0, 0, 100, 100, 200, 200].map((channel) => channel + pixel)),
    );
  });

  const stacked: SharedPatches = {
    name: 'x',
    dtype: 'float32',
    dims: [2, 3, 12],
    images: [image(2, 4), image(2, 2)],
    layout: NAFLEX,
    values,
  };

  it('are followed by zeros up to the longest, whatever was in the buffer', () => {
    const spare = new Float32Array(2 * 3 * 12).fill(9).buffer;
    const { data } = fillFeed(stacked, spare);
    const floats = data as Float32Array;
    expect(floats.buffer).toBe(spare);
    expect([...floats.subarray(24, 36)]).toEqual(Array.from({ length: 12 }, () => 0));
    expect([...floats.subarray(48)]).toEqual(Array.from({ length: 24 }, () => 0));
    expect(floats[36 + 3]).toBe(1);
  });

  it('are the same in rows of their own, and in memory of their own', () => {
    const whole = [...(fillFeed(stacked).data as Float32Array)];
    const rows = [0, 1].flatMap((row) =>
      Array.from(fillFeed(takeImages(stacked, row, 1, 1)).data as Float32Array),
    );
    expect(rows).toEqual(whole);
    expect([...(fillFeed(ownImages(stacked)).data as Float32Array)]).toEqual(whole);
    const joined = { ...stacked, dims: [3, 12] };
    expect([...(fillFeed(joined).data as Float32Array)]).toEqual([
      ...whole.slice(0, 24),
      ...whole.slice(36, 48),
    ]);
    expect(takeImages(joined, 0, 3, 3)).toBe(joined);
  });
});
