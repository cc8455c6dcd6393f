/**
 * What a further session of a model costs, with weights of its own and with prepared ones that all share:
 *   npx tsx bench/memory.ts [MODEL] [NODE]
 * Each line is a process of its own. PSS counts a page that is mapped several times once; Linux only.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [model = 'models/resnet50-untrained.onnx', node = 'avgpool', ...child] = process.argv.slice(2);

interface Cost {
  readonly openMs: number;
  readonly rss: number;
  readonly pss: number;
  readonly anonymous: number;
}

/** Opens so many lanes, runs each once, and prints what this process then holds, less what it held before. */
async function measureHere(lanes: number, cache: 'auto' | 'off', cacheFolder: string): Promise<void> {
  const { createFeatureExtractor } = await import('onnx-tapir');
  const devices = Array.from({ length: lanes }, (_, i) => ({ type: 'cpu', id: i, threads: 1 }) as const);
  const before = memory();
  const started = performance.now();
  const extractor = await createFeatureExtractor(model, [node], { devices, cache, cacheFolder });
  const openMs = performance.now() - started;
  const rows = extractor.inputs[0]!.dims!.slice(1).map(Number);
  const data = new Float32Array(lanes * rows.reduce((product, size) => product * size, 1));
  await extractor.run({ dtype: 'float32', dims: [lanes, ...rows], data });
  const after = memory();
  console.log(
    JSON.stringify({
      openMs,
      rss: after.rss - before.rss,
      pss: after.pss - before.pss,
      anonymous: after.anonymous - before.anonymous,
    }),
  );
  await extractor.close();
}

/** In MB. */
function memory(): Omit<Cost, 'openMs'> {
  const text = readFileSync('/proc/self/smaps_rollup', 'utf8');
  const read = (key: string): number =>
    Number(new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(text)![1]) / 1024;
  return { rss: read('Rss'), pss: read('Pss'), anonymous: read('Anonymous') };
}

function measure(lanes: number, cache: 'auto' | 'off', folder: string): Cost {
  const self = fileURLToPath(import.meta.url);
  const args = ['--import', 'tsx', self, model, node, String(lanes), cache, folder];
  const { stdout, stderr, status } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return JSON.parse(stdout) as Cost;
}

/** The middle one by time of several. */
function median(costs: readonly Cost[]): Cost {
  return costs.toSorted((a, b) => a.openMs - b.openMs)[Math.floor(costs.length / 2)]!;
}

function main(): void {
  if (!existsSync('/proc/self/smaps_rollup')) throw new Error('this needs Linux');
  const folder = mkdtempSync(join(tmpdir(), 'tapir-memory-'));
  const line = (words: readonly (string | number)[]): void =>
    console.log(words.map((word, i) => String(word).padStart(i === 0 ? 16 : 10)).join(''));
  try {
    line(['', 'lanes', 'open ms', 'RSS MB', 'PSS MB', 'anon MB']);
    const show = (title: string, lanes: number, { openMs, rss, pss, anonymous }: Cost): void =>
      line([title, lanes, ...[openMs, rss, pss, anonymous].map((value) => value.toFixed(0))]);
    show('auto, first time', 2, measure(2, 'auto', folder));
    const costs = { off: [] as Cost[], auto: [] as Cost[] };
    for (const cache of ['off', 'auto'] as const) {
      for (const lanes of [1, 2, 3, 4]) {
        const cost = median([1, 2, 3].map(() => measure(lanes, cache, folder)));
        costs[cache].push(cost);
        show(cache, lanes, cost);
      }
    }
    for (const key of ['openMs', 'pss', 'anonymous'] as const) {
      const ratio = (i: number): string => (costs.off[i]![key] / costs.auto[i]![key]).toFixed(1);
      line([`${key} off/auto`, '2 3 4', ...[1, 2, 3].map(ratio)]);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const [lanes, cache, folder] = child;
if (lanes === undefined) main();
else await measureHere(Number(lanes), cache === 'off' ? 'off' : 'auto', folder!);
