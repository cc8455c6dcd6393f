/**
 * Photos to embed: seeded crops of the photographs among the fixtures and of the example pictures, as JPEGs of about 500×375
 * pixels, quality 90, every fifth upright or so. Made with sharp, so that no Python is needed.
 */
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import sharp from 'sharp';

const ROOT = new URL('../../', import.meta.url);
const PHOTOGRAPHS = [
  'jpeg_420_500x375.jpg',
  'jpeg_444_375x500.jpg',
  'exif_6_300x400.jpg',
  'png_rgb_333x500.png',
];

/**
 * Enlarged crops and drawn pictures lack the fine detail that costs a decoder most of its time. Grain of this many levels brings
 * the files to about 70 kB, as the photograph of 500×375 pixels among the fixtures has.
 */
const GRAIN = 6;

/** Two photographs for each drawn picture. */
function listSources(): string[] {
  const photographs = PHOTOGRAPHS.map((name) =>
    fileURLToPath(new URL(`test/fixtures/preprocess/images/${name}`, ROOT)),
  );
  const folder = fileURLToPath(new URL('examples/photos', ROOT));
  const drawn = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.jpg'))
    .toSorted()
    .map((name) => join(folder, name));
  return drawn.flatMap((picture, i) => [photographs[(2 * i) % 4]!, photographs[(2 * i + 1) % 4]!, picture]);
}

/** Marsaglia's xorshift: numbers from 0 to 1, the same for the same seed. */
function randomNumbers(seed: number): () => number {
  let state = seed | 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** Adds grain, the same to the three channels of a pixel; the sum of three uniform numbers is near enough to a normal one. */
function addGrain(pixels: Buffer, random: () => number): void {
  for (let i = 0; i < pixels.length; i += 3) {
    const grain = Math.round((random() + random() + random() - 1.5) * 2 * GRAIN);
    for (let c = i; c < i + 3; c++) pixels[c] = Math.min(255, Math.max(0, pixels[c]! + grain));
  }
}

async function makePhoto(source: string, path: string, random: () => number): Promise<void> {
  const between = (from: number, to: number): number => Math.round(from + random() * (to - from));
  const isUpright = random() > 0.75;
  const width = (isUpright ? 375 : 500) + between(-12, 12);
  const height = (isUpright ? 500 : 375) + between(-12, 12);
  const { width: fullWidth, height: fullHeight } = await sharp(source).metadata();
  const zoom = Math.min(fullWidth / width, fullHeight / height) / (1 + 0.6 * random());
  const crop = { width: Math.floor(width * zoom), height: Math.floor(height * zoom) };
  const left = between(0, fullWidth - crop.width);
  const top = between(0, fullHeight - crop.height);
  const pixels = await sharp(source)
    .extract({ left, top, ...crop })
    .resize(width, height, { fit: 'fill' })
    .toColourspace('srgb')
    .removeAlpha()
    .raw()
    .toBuffer();
  addGrain(pixels, random);
  await sharp(pixels, { raw: { width, height, channels: 3 } })
    .jpeg({ quality: 90 })
    .toFile(path);
}

/** Writes so many photos into a folder, named so that all sorts agree, and returns their paths. */
export async function makePhotos(folder: string, count: number): Promise<string[]> {
  mkdirSync(folder, { recursive: true });
  const sources = listSources();
  const random = randomNumbers(7);
  const paths: string[] = [];
  for (let i = 0; i < count; i++) {
    const path = join(folder, `p${String(i).padStart(6, '0')}.jpg`);
    await makePhoto(sources[i % sources.length]!, path, random);
    paths.push(path);
  }
  return paths;
}
