/** The parts of attribution: axes and token grids, the rules of the path, resizing, the principal component. */
import { describe, expect, it } from 'vitest';
import { normaliseMaps, resizeMaps } from '../../../src/products/explain/heatmap.js';
import { readMaps, rowOf, toImage } from '../../../src/products/maps/maps.js';
import { principalMap } from '../../../src/products/explain/class-activation.js';
import { PATH_RULES, pathPoints } from '../../../src/products/explain/quadrature.js';
import { makeTensor, type Tensor } from '../../../src/onnx/tensor/tensor.js';

const IMAGE = [32, 32] as const;

/** A tensor whose elements are counted up. */
function counted(...dims: readonly number[]): Tensor<'float32'> {
  const length = dims.reduce((product, size) => product * size, 1);
  return makeTensor(
    'float32',
    dims,
    Float32Array.from({ length }, (_, i) => i),
  );
}

describe('readMaps', () => {
  it('puts the channels first, and back', () => {
    const image = counted(2, 2, 3, 4);
    const maps = readMaps('x', image, 'NHWC', IMAGE);
    expect(maps).toMatchObject({ rows: 2, channels: 4, size: [2, 3] });
    expect([...rowOf(maps, 1).subarray(0, 7)]).toEqual([24, 28, 32, 36, 40, 44, 25]);
    expect(toImage(maps, 'NHWC')).toEqual(image);
    expect(toImage(readMaps('x', image, 'NCHW', IMAGE), 'NCHW')).toEqual(image);
    expect(readMaps('x', image, null, IMAGE)).toMatchObject({ channels: 2, size: [3, 4] });
  });

  it.each([0, 1, 2, 5])('leaves out %i tokens in front of the patches', (prefix) => {
    const maps = readMaps('x', counted(2, prefix + 16, 3), 'NLC', IMAGE);
    expect(maps).toMatchObject({ rows: 2, channels: 3, size: [4, 4] });
    expect([...rowOf(maps, 0).subarray(15, 18)]).toEqual([3 * (prefix + 15), 3 * prefix + 1, 3 * prefix + 4]);
    const first = readMaps('x', counted(2, 3, prefix + 16), 'NCL', IMAGE);
    expect([...rowOf(first, 0).subarray(15, 18)]).toEqual([prefix + 15, 2 * prefix + 16, 2 * prefix + 17]);
  });

  it('finds the grid of an image that is not square', () => {
    expect(readMaps('x', counted(1, 9, 2), 'NLC', [32, 64])).toMatchObject({ size: [2, 4] });
  });

  it.each<[string, Tensor]>([
    ['a vector', counted(2, 8)],
    ['tokens that are no grid', counted(1, 15, 4)],
    ['other types', makeTensor('float16', [1, 1, 2, 2], new Uint16Array(4))],
  ])('refuses %s', (_, tensor) => {
    expect(() => readMaps('layer', tensor, null, IMAGE)).toThrow(/^"layer" is /);
  });
});

describe('pathPoints', () => {
  it.each(PATH_RULES)('%s: the weights add up to 1', (rule) => {
    for (const steps of [2, 5, 20, 100])
      expect(pathPoints(rule, steps).reduce((sum, { weight }) => sum + weight, 0)).toBeCloseTo(1, 12);
  });

  it('Gauss’s rule is exact for polynomials of degree 2n − 1', () => {
    const points = pathPoints('gausslegendre', 4);
    for (let degree = 0; degree < 8; degree++) {
      const integral = points.reduce((sum, { alpha, weight }) => sum + weight * alpha ** degree, 0);
      expect(integral).toBeCloseTo(1 / (degree + 1), 12);
    }
  });
});

describe('heat maps', () => {
  it('resizes with half pixels, or from corner to corner', () => {
    const line = Float32Array.of(0, 1);
    expect([...resizeMaps(line, [1, 2], [1, 4], 'half-pixel')]).toEqual([0, 0.25, 0.75, 1]);
    expect([...resizeMaps(line, [1, 2], [1, 5], 'corners')]).toEqual([0, 0.25, 0.5, 0.75, 1]);
    expect([...resizeMaps(line, [2, 1], [1, 2], 'corners')]).toEqual([0, 0]);
  });

  it('scales each map by itself; one without positive values is empty', () => {
    const scaled = normaliseMaps(Float32Array.of(-1, 0, 2, 4, -3, -2, -1, -1), [2, 2]);
    [0, 0, 0.5, 1, 0, 0, 0, 0].forEach((value, i) => expect(scaled[i]).toBeCloseTo(value, 6));
  });
});

describe('principalMap', () => {
  it('is the common part of the channels, bright where they are', () => {
    const shape = [0, 1, 2, 5];
    const channels = [3, 2, -1].flatMap((gain) => shape.map((value) => gain * value + 7));
    const map = principalMap(Float32Array.from(channels), 3);
    const gain = Math.sqrt(14);
    shape.forEach((value, i) => expect(map[i]).toBeCloseTo(gain * (value - 2), 6));
  });

  it('is empty where nothing varies', () => {
    expect([...principalMap(new Float32Array(12).fill(3), 3)]).toEqual([0, 0, 0, 0]);
  });
});
