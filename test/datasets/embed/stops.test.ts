/**
 * The real command, stopped at random moments with the default size of shards: what was shown as done is kept, the same command goes
 * on, and the files are those of a run that nobody stopped. TAPIR_SEED sets the random numbers.
 */
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../../src/base/random.js';
import { readMetadata } from '../../../src/datasets/formats/metadata.js';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import { rounds } from '../../support/rounds.js';
import { runScript, runTapirProcess, type Ended, type RunOptions } from '../../support/run.js';

const STOPS = rounds(1, 15);
const KILLS = rounds(1, 15);
const PHOTOS = rounds(120, 400);
const SIGNALS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const;

const scratch = mkdtempSync(join(scratchFolder(), 'stops-'));
const photos = join(scratch, 'photos');
const model = join(scratch, 'model.onnx');
const whole = join(scratch, 'whole');
const random = createRandom(Number(process.env['TAPIR_SEED'] ?? 3));
let wholeMs = 0;

function embed(out: string, options: RunOptions = {}): Promise<Ended> {
  const settings = [
    '--batch',
    '4',
    ...['threads', 'sessions', 'decodeThreads'].flatMap((name) => ['--set', `${name}=1`]),
  ];
  const args = ['embed', photos, '--model', model, '--return', 'y=v', '--out', out, ...settings];
  return runTapirProcess([...args, '--json'], options);
}

/** The same in code, where `shardSeconds` is an option: each batch is saved before the next one is asked for. */
function embedSaving(out: string, when: () => boolean): Promise<Ended> {
  const code = `
    import { createFeatureExtractor, embedFolder } from 'onnx-tapir';
    const extractor = await createFeatureExtractor(${JSON.stringify(model)}, { y: 'v' });
    const onProgress = ({ done }) => console.log(JSON.stringify({ event: 'progress', done }));
    await embedFolder(extractor, ${JSON.stringify(photos)}, {
      out: ${JSON.stringify(out)}, batch: 4, decodeThreads: 1, shardSeconds: 0, onProgress });
    await extractor.close();`;
  return runScript(code, { signal: { name: 'SIGKILL', when } });
}

/** Holds at a moment between the run's beginning and its end. */
function someMoment(out: string): () => boolean {
  const delayMs = wholeMs * random();
  let since: number | undefined;
  return () => {
    if (existsSync(join(out, 'journal.jsonl'))) since ??= performance.now();
    return since !== undefined && performance.now() - since >= delayMs;
  };
}

/** The inputs done of each event of progress that was printed. */
const shownIn = ({ stdout }: Ended): number[] =>
  stdout
    .split('\n')
    .filter((line) => line.endsWith('}'))
    .map((line) => JSON.parse(line) as { event: string; done: number })
    .flatMap(({ event, done }) => (event === 'progress' ? [done] : []));

/** Features and metadata by name. */
function contentOf(out: string): Record<string, string> {
  const files = ['features', 'metadata'].flatMap((folder) =>
    readdirSync(join(out, folder), { recursive: true, encoding: 'utf8' }).map((file) => join(folder, file)),
  );
  const bytes = (file: string): string => readFileSync(join(out, file)).toString('base64');
  return Object.fromEntries(files.filter((file) => /\.\w+$/.test(file)).map((file) => [file, bytes(file)]));
}

/** The inputs that a dataset has, finished or not: those of the files that its journal names. */
async function countKept(out: string): Promise<number> {
  const paths = new Set<string | null>();
  for (const file of readdirSync(join(out, 'metadata')))
    if (file.startsWith('metadata-'))
      for await (const { path } of readMetadata(join(out, 'metadata', file))) paths.add(path);
  return paths.size;
}

beforeAll(async () => {
  mkdirSync(photos);
  const graph = {
    inputs: [{ name: 'x', dims: ['n', 3, 224, 224] }],
    outputs: [{ name: 'y', dims: ['n', 3, 1, 1] }],
    nodes: [{ op: 'GlobalAveragePool', inputs: ['x'], outputs: ['y'] }],
  };
  writeFileSync(model, modelBytes(graph));
  const all = readdirSync(projectPath('examples/photos'), { recursive: true, encoding: 'utf8' });
  const files = all
    .filter((file) => file.endsWith('.jpg'))
    .map((file) => projectPath(`examples/photos/${file}`));
  files.push(fixturePath('preprocess/bad/truncated.jpg'));
  // Links do not cross file systems.
  for (const file of files) writeFileSync(join(scratch, basename(file)), readFileSync(file));
  for (let i = 0; i < PHOTOS; i++)
    linkSync(
      join(scratch, basename(files[i % files.length]!)),
      join(photos, `${String(i).padStart(3, '0')}.jpg`),
    );
  const from = performance.now();
  await embed(whole);
  // The rest is its start.
  wholeMs = 0.6 * (performance.now() - from);
}, 120_000);

describe('a run that is stopped', () => {
  const cases = SIGNALS.flatMap(([name, code]) =>
    Array.from({ length: STOPS }, (_, i) => [name, code, i] as const),
  );

  it.each(cases)(
    'by %s keeps all that it has shown, and goes on',
    { timeout: 120_000 },
    async (name, code, at) => {
      const out = join(scratch, `${name}-${at}`);
      const stopped = await embed(out, { signal: { name, when: someMoment(out) } });
      const kept = Number(
        /(\d+) photos? kept; run the same command to continue\n$/.exec(stopped.stderr)?.[1] ?? 0,
      );
      // It may have been faster than the signal.
      if (!existsSync(join(out, 'manifest.json'))) {
        expect(stopped, stopped.stderr).toMatchObject({ code, signal: null });
        expect(stopped.stderr).toMatch(/tapir: stopped(?:; .*)?\n$/);
        expect(
          readdirSync(out, { recursive: true }).filter((file) => String(file).endsWith('partial')),
        ).toEqual([]);
        expect(await countKept(out)).toBe(kept);
        expect(Math.max(0, ...shownIn(stopped))).toBeLessThanOrEqual(kept);
      }
      const resumed = await embed(out);
      expect(resumed.code, resumed.stderr).toBe(1);
      expect(contentOf(out)).toEqual(contentOf(whole));
      expect(await countKept(out)).toBe(PHOTOS);
    },
  );

  it(
    `loses what was not saved when it is killed, and goes on, ${KILLS} times`,
    { timeout: 300_000 },
    async () => {
      for (let at = 0; at < KILLS; at++) {
        const out = join(scratch, `killed-${at}`);
        const killed = await embedSaving(out, someMoment(out));
        // All but the latest batch, which is saved next.
        if (killed.signal === 'SIGKILL')
          expect(await countKept(out)).toBeGreaterThanOrEqual(shownIn(killed).at(-2) ?? 0);
        const resumed = await embed(out);
        expect(resumed.code, resumed.stderr).toBe(1);
        expect(contentOf(out)).toEqual(contentOf(whole));
      }
    },
  );
});
