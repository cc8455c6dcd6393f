/** Pictures of features: colours, several images, tokens, sizes, and what is refused. */
import { drawFeatures } from 'onnx-tapir/explain';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';

async function read(png: Uint8Array): Promise<{ data: Buffer; height: number; width: number }> {
  const { data, info } = await sharp(png).raw().toBuffer({ resolveWithObject: true });
  return { data, height: info.height, width: info.width };
}

/** Features `[N, C, H, W]` of the value at each place. */
function maps(dims: readonly [number, number, number, number], value: (...at: number[]) => number) {
  const [rows, channels, height, width] = dims;
  const data = new Float32Array(rows * channels * height * width);
  let i = 0;
  for (let n = 0; n < rows; n++)
    for (let c = 0; c < channels; c++)
      for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) data[i++] = value(n, c, y, x);
  return { dtype: 'float32', dims, data } as const;
}

describe('drawFeatures', () => {
  it('gives each component its colour: the largest variance is red', async () => {
    // Channel 0 grows to the right, channel 1 downwards and less.
    const features = maps([1, 4, 4, 5], (_n, c, y, x) => [10 * x, y, (x * y) % 2, 0][c]!);
    const { data, height, width } = await read(await drawFeatures(features));
    expect([height, width]).toEqual([64, 80]);
    const row = (y: number, channel: number): number[] =>
      [0, 1, 2, 3, 4].map((x) => data[3 * (16 * y * width + 16 * x) + channel]!);
    for (const y of [0, 3])
      row(y, 0).forEach((red, x) => expect(Math.abs(red - (255 * x) / 4)).toBeLessThan(4));
    expect(row(0, 1).every((green) => green < 40)).toBe(true);
    expect(row(3, 1).every((green) => green > 215)).toBe(true);
    // A place is 16 × 16 pixels of one colour.
    expect(data[3 * (15 * width + 15)]).toBe(data[0]);
  });

  it('draws several images side by side, with the same colours', async () => {
    const features = maps([2, 3, 2, 2], (n, c, y, x) => [5 * n + x, y, (x + y) % 2][c]!);
    const { data, height, width } = await read(
      await drawFeatures(features, { imageSize: { height: 2, width: 2 } }),
    );
    expect([height, width]).toEqual([2, 4]);
    const reds = [0, 1, 2, 3].map((x) => data[3 * x]!);
    expect(reds).toEqual(reds.toSorted((a, b) => a - b));
    expect(new Set(reds).size).toBe(4);
  });

  it('lays tokens out by the size of the image, without the class token', async () => {
    const tokens = Array.from({ length: 9 }, (_, i) =>
      i === 0 ? [1e6, 1e6, 1e6] : [i - 1, (i - 1) % 3, i % 2],
    );
    const features = { dtype: 'float16', dims: [1, 9, 3], data: new Uint16Array(27) } as const;
    const floats = { dtype: 'float32', dims: [1, 9, 3], data: Float32Array.from(tokens.flat()) } as const;
    const { data, height, width } = await read(
      await drawFeatures(floats, { imageSize: { height: 16, width: 32 } }),
    );
    expect([height, width]).toEqual([16, 32]);
    const red = (row: number, column: number): number => data[3 * (8 * row * width + 8 * column)]!;
    expect(red(0, 0)).toBeLessThan(red(0, 3));
    expect(red(0, 3)).toBeLessThan(red(1, 0));
    const flat = await read(await drawFeatures(features, { imageSize: { height: 16, width: 32 } }));
    expect(flat.data.every((byte) => byte === 0)).toBe(true);
  });

  it('takes images of several sizes as a list', async () => {
    const value = (_n: number, c: number, y: number, x: number): number => [x, y, (x * y) % 3][c]!;
    const features = [maps([1, 3, 2, 3], value), maps([1, 3, 4, 2], value)];
    const { data, height, width } = await read(await drawFeatures(features, { clip: 0 }));
    expect([height, width]).toEqual([64, 80]);
    const at = (y: number, x: number): number[] => [
      ...data.subarray(3 * (16 * (y * width + x)), 3 * (16 * (y * width + x)) + 3),
    ];
    // The same features have the same colour in both, and what lies under the lower picture is black.
    expect(at(1, 1)).toEqual(at(1, 4));
    expect(at(2, 0)).toEqual([0, 0, 0]);
    await expect(drawFeatures([])).rejects.toThrow(/at least one/);
    await expect(drawFeatures([features[0]!, maps([1, 4, 2, 2], value)])).rejects.toThrow(
      /3 channels, as the first/,
    );
  });

  it('leaves a share of the places out of the range, or none', async () => {
    const features = maps([1, 3, 20, 20], (_n, c, y, x) => (x + y === 0 ? 1e4 : [x, y, (x * y) % 3][c]!));
    const reds = async (clip: number): Promise<number> => {
      const { data } = await read(await drawFeatures(features, { clip }));
      return new Set(data.filter((_, i) => i % 3 === 0)).size;
    };
    expect(await reds(0.02)).toBeGreaterThan(await reds(0));
    await expect(drawFeatures(features, { clip: 0.5 })).rejects.toThrow(/clip/);
  });

  it('keeps outliers within the range of the colours', async () => {
    const features = maps([1, 3, 20, 20], (_n, c, y, x) => (x + y === 0 ? 1e4 : [x, y, (x * y) % 3][c]!));
    const { data, width } = await read(await drawFeatures(features));
    const reds = Array.from(
      { length: 400 },
      (_, i) => data[3 * (16 * Math.floor(i / 20) * width + 16 * (i % 20))]!,
    );
    expect([0, 255]).toContain(reds[0]);
  });

  it.each([
    ['a vector', { dtype: 'float32', dims: [1, 8], data: new Float32Array(8) }, /only a map/],
    [
      'tokens that are no grid',
      { dtype: 'float32', dims: [1, 7, 3], data: new Float32Array(21) },
      /7 tokens/,
    ],
    ['two channels', { dtype: 'float32', dims: [1, 2, 4, 4], data: new Float32Array(32) }, /3 channels/],
    ['text', { dtype: 'string', dims: [1, 3, 1, 1], data: ['a', 'b', 'c'] as string[] }, /numbers/],
  ] as const)('refuses %s', async (_, features, message) => {
    await expect(drawFeatures(features)).rejects.toThrow(message);
  });

  it('refuses other options', async () => {
    const features = maps([1, 3, 2, 2], (_n, c, y, x) => c * y + x);
    await expect(drawFeatures(features, { method: 'umap' as 'pca' })).rejects.toThrow(/method/);
    await expect(drawFeatures(features, { imageSize: { height: 0, width: 2 } })).rejects.toThrow(
      /imageSize.height/,
    );
    await expect(drawFeatures(features, { layout: 'NC' })).rejects.toThrow(/layout/);
  });
});
