/** Heat maps as PNGs: colours, opacity, the scale, and what is refused. */
import { drawHeatmap } from 'onnx-tapir/explain';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { colourOf, INFERNO } from '../../../../src/products/maps/colour-map.js';

const [height, width] = [20, 40];
const image = { height, width, data: new Uint8Array(3 * height * width).fill(100) };
const heatmap = {
  dtype: 'float32',
  dims: [1, height, width],
  data: Float32Array.from({ length: height * width }, (_, i) => (i % width) / (width - 1)),
} as const;

async function read(png: Uint8Array): Promise<{ data: Buffer; height: number; width: number }> {
  const { data, info } = await sharp(png).raw().toBuffer({ resolveWithObject: true });
  return { data, height: info.height, width: info.width };
}

describe('drawHeatmap', () => {
  it('mixes the colours with the image, and adds a scale below it', async () => {
    const drawn = await read(await drawHeatmap(image, heatmap, { opacity: 0.5 }));
    expect(drawn).toMatchObject({ height: height + 7, width });
    expect([...drawn.data.subarray(0, 3)]).toEqual([50, 50, 52]);
    const last = 3 * (width - 1);
    expect([...drawn.data.subarray(last, last + 3)]).toEqual([176, 178, 132]);
    const bar = 3 * ((height + 3) * width);
    expect([...drawn.data.subarray(bar + 3 * 5, bar + 3 * 6)]).toEqual([0, 0, 4]);
    expect([...drawn.data.subarray(bar + 3 * 34, bar + 3 * 35)]).toEqual([252, 255, 164]);
    expect([...drawn.data.subarray(bar, bar + 3)]).toEqual([255, 255, 255]);
  });

  it('leaves the scale out, and the image alone with opacity 0', async () => {
    const drawn = await read(await drawHeatmap(image, heatmap, { opacity: 0, scale: false }));
    expect(drawn.height).toBe(height);
    expect(drawn.data.every((value) => value === 100)).toBe(true);
  });

  it('refuses a map of another size, and another opacity', async () => {
    const other = { ...heatmap, dims: [1, width, height] };
    await expect(drawHeatmap(image, other)).rejects.toMatchObject({ code: 'INPUT_MISMATCH' });
    await expect(drawHeatmap(image, heatmap, { opacity: 2 })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });
});

it('colours get lighter from 0 to 1', () => {
  const lightness = Array.from({ length: 33 }, (_, i) => {
    const [red, green, blue] = colourOf(i / 32, INFERNO);
    return 0.21 * red + 0.72 * green + 0.07 * blue;
  });
  expect(lightness).toEqual(lightness.toSorted((a, b) => a - b));
  expect(colourOf(-1, INFERNO)).toEqual([0, 0, 4]);
  expect(colourOf(2, INFERNO)).toEqual([252, 255, 164]);
});
