/**
 * `npx tsx bench/reuse.ts [photos]`: a dataset of photos (10,000 by default), whose folders are renamed, with 5 % new ones. Says how many rows
 * were copied, how many vectors differ, and the time (wall and CPU) without that of the new photos, against reading and hashing the files in one
 * thread, in turns.
 */
import { createHash } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createFeatureExtractor, embedFolder, openDataset } from 'onnx-tapir';
import { buildResNet } from '../models/resnet.js';

const count = Number(process.argv[2] ?? 10_000);
const ROUNDS = 3;
const scratch = mkdtempSync(join(tmpdir(), 'tapir-reuse-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
const at = (name: string): string => join(scratch, name);

/** Photos of 100 kB: an example with a comment of its own after its end, which no decoder reads. */
const example = readFileSync(new URL('../examples/photos/sea/sea-0.jpg', import.meta.url));
function writePhotos(folder: string, from: number, to: number): void {
  for (let i = from; i < to; i++) {
    const place = join(folder, String(i % 10));
    mkdirSync(place, { recursive: true });
    writeFileSync(
      join(place, `${i}.jpg`),
      Buffer.concat([example, Buffer.alloc(100_000 - example.length, `${i} `)]),
    );
  }
}

const fresh = Math.round(count / 20);
writePhotos(at('photos'), 0, count - fresh);
// Small: what is measured is what happens beside the model.
const bytes = buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 64, classes: 10 }).bytes;
const extractor = await createFeatureExtractor(bytes, { avgpool: 'vector' });
const options = { transform: { resize: 72, crop: 64 } } as const;
await embedFolder(extractor, at('photos'), { ...options, out: at('first') });
for (const name of readdirSync(at('photos')))
  renameSync(join(at('photos'), name), join(at('photos'), `moved-${name}`));
writePhotos(at('new'), count - fresh, count);
cpSync(at('new'), at('photos'), { recursive: true });

function readAndHash(): Spent {
  const since = begin();
  for (const name of readdirSync(at('photos'), { recursive: true, encoding: 'utf8' }))
    if (name.endsWith('.jpg'))
      createHash('sha256')
        .update(readFileSync(join(at('photos'), name)))
        .digest();
  return since();
}

interface Spent {
  readonly seconds: number;
  readonly cpuSeconds: number;
}

function begin(): () => Spent {
  const [at, before] = [performance.now(), process.cpuUsage()];
  return () => {
    const { user, system } = process.cpuUsage(before);
    return { seconds: (performance.now() - at) / 1000, cpuSeconds: (user + system) / 1e6 };
  };
}

const times: { readonly hashed: Spent; readonly reused: Spent; readonly alone: Spent }[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const hashed = readAndHash();
  const out = at(`second-${round}`);
  let since = begin();
  const made = await embedFolder(extractor, at('photos'), { ...options, out, reuse: [at('first')] });
  const reused = since();
  if (made.reused !== count - fresh || made.embedded !== fresh)
    throw new Error(`${made.reused} were copied, ${made.embedded} ran`);
  since = begin();
  await embedFolder(extractor, at('new'), { ...options, out: at(`alone-${round}`) });
  times.push({ hashed, reused, alone: since() });
}
await extractor.close();

const first = new Map<string, Float32Array>();
for await (const { stamp, vector } of (await openDataset(at('first'))).vectors('vector'))
  first.set(stamp!.digest!, vector);
let [same, differing] = [0, 0];
for await (const { stamp, vector } of (await openDataset(at('second-0'))).vectors('vector')) {
  const before = first.get(stamp!.digest!);
  if (before && Buffer.compare(Buffer.from(before.buffer), Buffer.from(vector.buffer)) === 0) same++;
  else if (before) differing++;
}
const ratioOf = (kind: keyof Spent): number =>
  times
    .map(({ hashed, reused, alone }) => (reused[kind] - alone[kind]) / hashed[kind])
    .toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)]!;
const ratios = { seconds: ratioOf('seconds'), cpuSeconds: ratioOf('cpuSeconds') };
console.log(JSON.stringify({ photos: count, fresh, same, differing, times, ratios }, null, 2));
