/**
 * Draws the example pictures: six motifs, four variants of each, by formulas alone, so that they are nobody's property
 * (Apache-2.0 like the project). They are committed; run `tsx examples/photos/make.ts` to draw them again.
 */
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';

const WIDTH = 400;
const HEIGHT = 300;

type Colour = readonly [number, number, number];
/** The colour at a point; x and y run from 0 to 1. */
type Motif = (x: number, y: number) => Colour;

const mixColours = (a: Colour, b: Colour, t: number): Colour => [
  a[0] + (b[0] - a[0]) * t,
  a[1] + (b[1] - a[1]) * t,
  a[2] + (b[2] - a[2]) * t,
];
const clamp = (t: number): number => Math.min(1, Math.max(0, t));

/** A number from 0 to 1 that looks random, per grid point and seed. */
function hash(x: number, y: number, seed: number): number {
  let h = Math.imul(x | 0, 374761393) + Math.imul(y | 0, 668265263) + Math.imul(seed, 144665);
  h = Math.imul(h ^ (h >>> 13), 1274126177);
  return ((h ^ (h >>> 16)) >>> 0) / 2 ** 32;
}

/** 0 to 1, without a kink at either end. */
function eased(part: number): number {
  return part * part * (3 - 2 * part);
}

/** Smooth value noise, summed over octaves. */
function noise(x: number, y: number, seed: number, octaves = 4): number {
  let sum = 0;
  for (let octave = 0, scale = 1, weight = 0.5; octave < octaves; octave++, scale *= 2, weight /= 2) {
    const [u, v] = [x * scale, y * scale];
    const [i, j] = [Math.floor(u), Math.floor(v)];
    const [s, t] = [eased(u - i), eased(v - j)];
    const at = (di: number, dj: number): number => hash(i + di, j + dj, seed + octave);
    const top = at(0, 0) + (at(1, 0) - at(0, 0)) * s;
    const bottom = at(0, 1) + (at(1, 1) - at(0, 1)) * s;
    sum += (top + (bottom - top) * t) * weight;
  }
  return sum;
}

const MOTIFS: Readonly<Record<string, (seed: number) => Motif>> = {
  dunes: (seed) => (x, y) => {
    const sky = mixColours([250, 214, 165], [120, 150, 200], clamp(1 - y * 2));
    for (let ridge = 4; ridge >= 0; ridge--) {
      const line =
        0.45 +
        ridge * 0.11 +
        0.08 * Math.sin(x * (4 + ridge) + seed * 2.1 + ridge) +
        0.05 * noise(x * 3, ridge, seed);
      if (y > line)
        return mixColours(
          [222 - ridge * 18, 160 - ridge * 16, 90 - ridge * 10],
          [70, 40, 30],
          clamp((y - line) * 1.8),
        );
    }
    return sky;
  },
  sea: (seed) => (x, y) => {
    const horizon = 0.38 + 0.03 * (seed % 3);
    if (y < horizon) return mixColours([90, 150, 215], [225, 236, 245], y / horizon);
    const depth = (y - horizon) / (1 - horizon);
    const wave = noise(x * 10, (y * 40) / (0.3 + depth), seed, 3);
    return mixColours([20, 70, 110], [170, 215, 225], clamp(wave * 1.3 - 0.3 + (1 - depth) * 0.15));
  },
  forest: (seed) => (x, y) => {
    let colour = mixColours([196, 214, 190], [60, 84, 58], y);
    for (let layer = 0; layer < 3; layer++) {
      const bend = x * (9 + layer * 6) + 0.4 * noise(y * 2, layer, seed) + seed * 0.37;
      const trunk = Math.abs((bend % 1) - 0.5) < 0.1 + 0.05 * hash(Math.floor(bend), layer, seed);
      if (trunk)
        colour = mixColours(
          [110 - layer * 30, 100 - layer * 32, 80 - layer * 26],
          [24, 22, 16],
          noise(x * 80, y * 6, seed) * 0.6,
        );
    }
    const leaves = noise(x * 14, y * 14, seed + 9);
    return leaves > 0.52 + y * 0.35 ? [46 + leaves * 60, 92 + leaves * 70, 40] : colour;
  },
  city: (seed) => (x, y) => {
    const night = mixColours([10, 12, 40], [70, 40, 90], y);
    const block = Math.floor(x * 14);
    const height = 0.25 + 0.55 * hash(block, 0, seed);
    if (y < 1 - height)
      return hash(Math.floor(x * WIDTH), Math.floor(y * HEIGHT), seed) > 0.998 ? [240, 240, 255] : night;
    const inWindow = (x * 70) % 1 > 0.35 && (y * 40) % 1 > 0.45;
    const lit = hash(Math.floor(x * 70), Math.floor(y * 40), seed + 3) > 0.55;
    return inWindow && lit ? [250, 210, 120] : [26, 28, 38];
  },
  clouds: (seed) => (x, y) => {
    const cover = noise(x * 5 + seed, y * 7, seed, 6);
    return mixColours([70, 130, 210], [250, 250, 252], clamp((cover - 0.38) * 5));
  },
  flower: (seed) => (x, y) => {
    const [u, v] = [(x - 0.5) * (WIDTH / HEIGHT), y - 0.5];
    const radius = Math.hypot(u, v);
    const petals = 5 + (seed % 4) * 2;
    const edge = 0.3 + 0.1 * Math.cos(Math.atan2(v, u) * petals + seed);
    if (radius < 0.09) return mixColours([250, 205, 60], [150, 90, 20], noise(x * 60, y * 60, seed));
    if (radius < edge)
      return mixColours([240, 90 + seed * 25, 150], [130, 20, 80], clamp(radius * 2.6 - 0.2));
    return mixColours([40, 90, 40], [110, 160, 70], noise(x * 8, y * 8, seed));
  },
};

const folder = new URL('./', import.meta.url);
for (const [name, motif] of Object.entries(MOTIFS)) {
  mkdirSync(new URL(`${name}/`, folder), { recursive: true });
  for (let seed = 0; seed < 4; seed++) {
    const paint = motif(seed);
    const pixels = Buffer.alloc(WIDTH * HEIGHT * 3);
    for (let row = 0, at = 0; row < HEIGHT; row++) {
      for (let column = 0; column < WIDTH; column++) {
        for (const channel of paint(column / WIDTH, row / HEIGHT))
          pixels[at++] = Math.round(Math.min(255, Math.max(0, channel)));
      }
    }
    const file = fileURLToPath(new URL(`${name}/${name}-${seed}.jpg`, folder));
    await sharp(pixels, { raw: { width: WIDTH, height: HEIGHT, channels: 3 } })
      .jpeg({ quality: 82 })
      .toFile(file);
  }
}
