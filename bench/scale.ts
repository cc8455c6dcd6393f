/**
 * `npx tsx bench/scale.ts [--rows 200000] [--python PYTHON] [--json FILE]`: a dataset of many rows of 256 numbers is imported, searched,
 * looked through for near-duplicates and reported, as the command does it, beside the same work in numpy and pyarrow (bench/scale.py). Each
 * measurement is a process of its own: wall time, CPU time and peak memory. Questions of a served search are asked in this one. It fails if the neighbours differ. It needs `npm run build`, a Python with numpy and
 * pyarrow, and `/usr/bin/time`. `--rows 5000` takes seconds.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openDataset } from 'onnx-tapir';
import { openSearch } from 'onnx-tapir/features';
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

try {
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
    const before = { at: performance.now(), cpu: process.cpuUsage() };
    const vector = Float32Array.from({ length: 256 }, (_, i) => Math.sin((i + question) * 12.9898) + 0.1);
    await search.search([vector], { top: 5 });
    const { user, system } = process.cpuUsage(before.cpu);
    const seconds = (performance.now() - before.at) / 1000;
    const cpuSeconds = (user + system) / 1e6;
    const peakBytesPerRow = process.memoryUsage.rss() / rows;
    measured.push({
      what: `question ${question}, served`,
      by: 'tapir',
      seconds,
      cpuSeconds,
      peakBytesPerRow,
    });
    console.log(`question ${question}, served: ${seconds.toFixed(2)} s, ${cpuSeconds.toFixed(2)} s of CPU`);
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
