/**
 * Draws each picture with its nearest neighbours by cosine: the picture in the README.
 * Run: npx tsx examples/05-nearest-neighbours.ts [MODEL] [OUT] [NODE]
 */
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createFeatureExtractor, embedImages } from 'onnx-tapir';
import sharp from 'sharp';

const [model = 'models/resnet50-untrained.onnx', out = 'out/neighbours.png', node = 'avgpool'] =
  process.argv.slice(2);
const [folder, tile, gap, shown] = ['examples/photos', { width: 132, height: 99 }, 6, 4];

const vectors: { readonly path: string; readonly unit: Float32Array }[] = [];
await using extractor = await createFeatureExtractor(model, { [node]: 'embedding' } as const);
for await (const { path, features, error } of embedImages(extractor, folder)) {
  if (error || path === null) continue;
  const values = features.embedding.data;
  const norm = Math.hypot(...values);
  vectors.push({ path, unit: values.map((value) => value / norm) });
}

const cosine = (a: Float32Array, b: Float32Array): number =>
  a.reduce((sum, value, i) => sum + value * b[i]!, 0);
const queries = vectors.filter(({ path }) => path.endsWith('-0.jpg'));
const tiles: { input: Buffer; left: number; top: number }[] = [];
for (const [row, query] of queries.entries()) {
  const ranked = vectors
    .filter(({ path }) => path !== query.path)
    .map(({ path, unit }) => ({ path, score: cosine(query.unit, unit) }))
    .sort((a, b) => b.score - a.score);
  console.log(
    query.path,
    '→',
    ranked
      .slice(0, shown)
      .map(({ path, score }) => `${path} ${score.toFixed(3)}`)
      .join(', '),
  );
  for (const [column, { path }] of [query, ...ranked.slice(0, shown)].entries()) {
    const input = await sharp(join(folder, path)).resize(tile).toBuffer();
    // A wider gap sets the query apart from its neighbours.
    const left = column * (tile.width + gap) + (column > 0 ? 3 * gap : 0);
    tiles.push({ input, left, top: row * (tile.height + gap) });
  }
}
const width = (shown + 1) * (tile.width + gap) + 2 * gap;
const height = queries.length * (tile.height + gap) - gap;
await mkdir(dirname(out), { recursive: true });
await sharp({ create: { width, height, channels: 3, background: '#ffffff' } })
  .composite(tiles)
  .png({ palette: true })
  .toFile(out);
console.log(`written: ${out}`);
