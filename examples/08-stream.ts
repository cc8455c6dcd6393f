/**
 * Records of images through a stream, lines of JSON out; each part waits for the slowest one.
 * Run: npx tsx examples/08-stream.ts [MODEL] [OUT]
 */
import { createWriteStream, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { readdir, readFile } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createFeatureExtractor, embedStream, type StreamRow } from 'onnx-tapir';

const [model = 'models/resnet50-untrained.onnx', out = 'out/08-rows.jsonl'] = process.argv.slice(2);
const photos = new URL('photos/', import.meta.url);
mkdirSync(dirname(out), { recursive: true });
await using extractor = await createFeatureExtractor(model, { avgpool: 'embedding' });

/** What each image carries through to its row. */
interface Label {
  readonly file: string;
  readonly label: string;
}

async function* records(): AsyncGenerator<{ image: Uint8Array } & Label> {
  const files = await readdir(photos, { recursive: true });
  for (const file of files.filter((name) => name.endsWith('.jpg')).toSorted())
    yield { image: await readFile(new URL(file, photos)), file, label: file.split(/[/\\]/)[0]! };
}

async function* lines(rows: AsyncIterable<StreamRow<'embedding', Label>>): AsyncGenerator<string> {
  let count = 0;
  let first = '';
  for await (const { file, label, features, error } of rows) {
    if (count++ === 0) first = `${file} of ${label}: ${features?.embedding.data.length} numbers`;
    yield `${JSON.stringify({ file, label, error: error?.code, embedding: features && [...features.embedding.data] })}\n`;
  }
  console.log(`${count} rows, the first one ${first}`); // 24 rows, the first one city/city-0.jpg of city: 2048 numbers
}

await pipeline(records, embedStream(extractor), lines, createWriteStream(out));
