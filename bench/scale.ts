/**
 * `npx tsx bench/scale.ts [--rows 200000] [--python PYTHON] [--json FILE]`: a dataset of many rows of 256 numbers is imported, searched,
 * looked through for near-duplicates and reported, as the command does it, beside the same work in numpy and pyarrow (bench/scale.py). Each
 * measurement is a process of its own: wall time, CPU time and peak memory. Questions of a served search are asked in this one. A run goes
 * on that has done as many photos of 1 kB in 10 folders, with 100 new ones: to its first batch, and to its end. It fails if the neighbours
 * differ. It needs `npm run build`, a Python with numpy and pyarrow, and `/usr/bin/time`. `--rows 5000` takes seconds. (`bench/run.ts` has
 * the cuts.)
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createFeatureExtractor, embedFolder, openDataset } from 'onnx-tapir';
import { openSearch } from 'onnx-tapir/features';
import { buildResNet } from '../models/resnet.js';
import { encodeNpy } from '../src/datasets/formats/npy.js';

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '200000' },
    python: { type: 'string', default: 'python3' },
    json: { type: 'string' },
  },
});
const rows = Number(values.rows);
const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'tapir-scale-'));
const at = (name: string): string => join(folder, name);

interface Measured {
  readonly what: string;
  readonly by: 'tapir' | 'python';
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly peakBytesPerRow: number;
}
const measured: Measured[] = [];

function run(what: string, by: Measured['by'], args: readonly string[]): string {
  const command =
    by === 'tapir' ? [process.execPath, here('../dist/lib/bin.cjs')] : [values.python, here('scale.py')];
  const { status, stdout, stderr } = spawnSync(
    '/usr/bin/time',
    ['-f', '\n%e %U %S %M', ...command, ...args],
    {
      encoding: 'utf8',
      maxBuffer: 2 ** 30,
    },
  );
  if (status !== 0) throw new Error(`${what} by ${by} failed: ${stderr}`);
  const [seconds, user, system, kilobytes] = stderr.trim().split('\n').at(-1)!.split(' ').map(Number);
  const cpuSeconds = user! + system!;
  measured.push({ what, by, seconds: seconds!, cpuSeconds, peakBytesPerRow: (kilobytes! * 1024) / rows });
  console.log(
    `${what} (${by}): ${seconds} s, ${cpuSeconds.toFixed(2)} s of CPU, ${Math.round(kilobytes! / 1024)} MiB`,
  );
  return stdout;
}

/** How long a run takes that has nearly nothing left to do. */
async function resume(): Promise<void> {
  const photos = at('photos');
  const example = readFileSync(here('../test/fixtures/jpeg/images/half_width_16x8.jpg'));
  const write = (name: string, end: string): void =>
    writeFileSync(join(photos, name), Buffer.concat([example, Buffer.from(end)]));
  const folders = Array.from({ length: 10 }, (_, i) => String(i));
  const extractor = await createFeatureExtractor(
    buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 32, classes: 10 }).bytes,
    { avgpool: 'vector' },
  );
  const transform = { resize: 32, crop: 32 } as const;
  for (const name of folders) mkdirSync(join(photos, name), { recursive: true });
  // All rows are copies of the first photo's: the photos are alike.
  write('0/0.jpg', '');
  await embedFolder(extractor, photos, { out: at('first'), transform });
  for (let i = 1; i < rows; i++) write(`${i % 10}/${i}.jpg`, '');
  await embedFolder(extractor, photos, { out: at('resumed'), transform, reuse: [at('first')] });
  for (let i = 0; i < 100; i++) write(`${i % 10}/new-${i}.jpg`, String(i));
  const spent = begin();
  let isFirst = true;
  const onProgress = (): void => {
    if (isFirst) measured.push(spent('resume, to the first batch'));
    isFirst = false;
  };
  const { embedded } = await embedFolder(extractor, photos, { out: at('resumed'), transform, onProgress });
  measured.push(spent('resume, to the end'));
  if (embedded !== 100) throw new Error(`${embedded} photos were embedded, not 100`);
  await extractor.close();
}

/** Measures in this process. */
function begin(): (what: string) => Measured {
  const [since, before] = [performance.now(), process.cpuUsage()];
  return (what) => {
    const { user, system } = process.cpuUsage(before);
    const seconds = (performance.now() - since) / 1000;
    const cpuSeconds = (user + system) / 1e6;
    const rss = process.memoryUsage.rss();
    console.log(
      `${what}: ${seconds.toFixed(2)} s, ${cpuSeconds.toFixed(2)} s of CPU, ${Math.round(rss / 2 ** 20)} MiB`,
    );
    return { what, by: 'tapir', seconds, cpuSeconds, peakBytesPerRow: rss / rows };
  };
}

try {
  // First, while this process holds nothing else.
  await resume();
  for (const kind of ['clustered', 'random']) {
    run(`make ${kind}`, 'python', ['make', at(`${kind}.parquet`), String(rows), kind]);
    const importing = ['--column', 'embedding', '--path', 'path', '-o', at(kind)];
    run(`import ${kind}`, 'tapir', ['import', at(`${kind}.parquet`), ...importing]);
  }
  run('import clustered', 'python', ['import', at('clustered.parquet'), at('twin')]);
  for (const count of [1, 8]) {
    const data = Float32Array.from({ length: count * 256 }, (_, i) => Math.sin(i * 12.9898) + 0.1);
    writeFileSync(at('queries.npy'), encodeNpy({ dtype: 'float32', dims: [count, 256], data }));
    const found = run(`search of ${count}`, 'tapir', [
      'search',
      at('random'),
      '--vector',
      at('queries.npy'),
      '--top',
      '5',
      '--json',
    ]);
    const expected = run(`search of ${count}`, 'python', ['search', at('random'), at('queries.npy'), '5']);
    const paths = [...found.matchAll(/"path":\s*"([^"]+\.jpg)"/g)].map(([, path]) => path);
    if (paths.join(' ') !== expected.trim().split(/\s+/).join(' ')) throw new Error('the neighbours differ');
  }
  for (const kind of ['clustered', 'random']) {
    const found = JSON.parse(
      run(`dedupe ${kind}`, 'tapir', ['dedupe', at(kind), '--cosine', '0.97', '--json']),
    ) as {
      pairs: { total: number; multiplied: number };
    };
    const left = (100 * found.pairs.multiplied) / found.pairs.total;
    console.log(
      `  ${left.toFixed(2)} % of the pairs were multiplied; bounds of their groups ruled out the others`,
    );
  }
  run('report clustered', 'tapir', ['report', at('clustered'), '-o', at('report.html')]);
  console.log(`  a page of ${(statSync(at('report.html')).size / 1e6).toFixed(1)} MB`);
  const search = await openSearch(await openDataset(at('random')));
  for (let question = 1; question <= 3; question++) {
    const spent = begin();
    const vector = Float32Array.from({ length: 256 }, (_, i) => Math.sin((i + question) * 12.9898) + 0.1);
    await search.search([vector], { top: 5 });
    measured.push(spent(`question ${question}, served`));
  }
  await search.close();
  if (values.json !== undefined)
    writeFileSync(
      values.json,
      `${JSON.stringify({ rows, cores: availableParallelism(), measured }, null, 2)}\n`,
    );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
