/** Damaged files: each gives a typed error or the right tensors, quickly. */
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { isTapirError } from '../../../src/base/errors.js';
import { SharedFile } from '../../../src/base/files/shared-file.js';
import { readStateDict } from '../../../src/learn/parameters/dicts/read-state-dict.js';
import { writeStateDict } from '../../../src/learn/parameters/dicts/write-state-dict.js';
import type { Tensor } from '../../../src/onnx/tensor/tensor.js';
import { scratchFolder } from '../../support/fixtures.js';
import { readAll, stateFixture } from '../../support/states.js';
import { rounds } from '../../support/rounds.js';

const scratch = scratchFolder();
const mutants = rounds(100, 10_000);

/** xorshift32 (Marsaglia 2003). */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % below;
  };
}

interface Mutant {
  readonly bytes: Buffer;
  /** Positions of changed bytes. Where bytes were cut out or doubled: the first. */
  readonly changed: readonly number[];
}

/** A few bytes changed, mostly where the file describes its tensors; or bytes cut out, doubled, or cut off. */
function mutate(original: Buffer, facts: number, random: (below: number) => number): Mutant {
  const kind = random(8);
  const at = random(2) === 0 ? random(facts) : original.length - 1 - random(Math.min(original.length, 4000));
  const end = Math.min(original.length, at + 1 + random(64));
  const parts = [[original.subarray(0, at)], [original.subarray(0, at), original.subarray(end)]];
  parts.push([original.subarray(0, end), original.subarray(at)]);
  if (kind < 3) return { bytes: Buffer.concat(parts[kind]!), changed: [at] };
  const bytes = Buffer.from(original);
  const changed = Array.from({ length: 1 + random(4) }, () => (random(2) === 0 ? random(facts) : at));
  for (const position of changed) bytes[position] = random(256);
  return { bytes, changed };
}

/** A tensor as it should be read, and where its data lies in its file. */
interface Expected {
  readonly tensor: Tensor;
  readonly file: string;
  readonly start: number;
  readonly end: number;
}

async function readExpected(path: string): Promise<Map<string, Expected>> {
  const expected = new Map<string, Expected>();
  const read = vi.spyOn(SharedFile.prototype, 'read');
  for (const [key, entry] of await readStateDict(path)) {
    const tensor = await entry.read();
    const [start, length] = read.mock.lastCall!;
    const file = basename((read.mock.contexts.at(-1) as SharedFile).path);
    expected.set(key, { tensor, file, start, end: start + length });
  }
  read.mockRestore();
  return expected;
}

const fixture = (name: string): string => stateFixture(name, scratch);

/** Writes the tensors of a file into two shards. Returns the paths of the index and of the shards. */
async function writeShards(): Promise<string[]> {
  const state = await readStateDict(fixture('shared/shared.B.safetensors'));
  const files = ['model-1.safetensors', 'model-2.safetensors'];
  const fileOf = new Map([...state.keys()].map((key, i) => [key, files[i % 2]!]));
  for (const file of files) {
    const tensors = new Map([...state].filter(([key]) => fileOf.get(key) === file));
    await writeStateDict(join(scratch, file), tensors, { overwrite: true });
  }
  const index = join(scratch, 'model.safetensors.index.json');
  writeFileSync(index, JSON.stringify({ weight_map: Object.fromEntries(fileOf) }));
  return [index, ...files.map((file) => join(scratch, file))];
}

interface Container {
  /** The file to open, and files beside it. */
  readonly paths: readonly string[];
  /** Which of the files is damaged. */
  readonly damaged?: number;
  /** How many bytes at its start describe the tensors. */
  readonly facts: number;
  /** Whether what can be read is right wherever the file is damaged: it has checksums, or no data. */
  readonly isChecked?: boolean;
}

describe.each<[string, () => Container | Promise<Container>]>([
  ['a zip of torch', () => ({ paths: [fixture('shared/shared.B.pth')], facts: 6000, isChecked: true })],
  [
    'a checkpoint',
    () => ({ paths: [fixture('shared/shared.B.checkpoint.pth')], facts: 6000, isChecked: true }),
  ],
  ['a file of torch before 1.6', () => ({ paths: [fixture('formats/legacy.pth')], facts: 8100 })],
  ['safetensors', () => ({ paths: [fixture('shared/shared.B.safetensors')], facts: 3000 })],
  ['an index of shards', async () => ({ paths: await writeShards(), facts: 1500, isChecked: true })],
  ['a shard', async () => ({ paths: await writeShards(), damaged: 1, facts: 1500 })],
])('%s', (title, prepare) => {
  it(`gives a typed error or the right tensors if it is damaged, ${mutants} times`, async () => {
    const { paths, damaged = 0, facts, isChecked = false } = await prepare();
    const expected = await readExpected(paths[0]!);
    const name = basename(paths[damaged]!);
    const original = readFileSync(paths[damaged]!);
    const inFile = [...expected.values()].filter(({ file }) => file === name);
    const dataAt = Math.min(...inFile.map(({ start }) => start));
    const folder = mkdtempSync(join(scratch, 'damaged-'));
    for (const path of paths) copyFileSync(path, join(folder, basename(path)));

    /** Whether the damage cannot have changed a tensor that was read. */
    const mustBeRight = ({ changed }: Mutant, { file, start, end }: Expected): boolean =>
      isChecked ||
      file !== name ||
      (changed.every((at) => at >= dataAt) && !changed.some((at) => at >= start && at < end));

    const random = randomFrom(facts + title.length);
    const outcomes = { read: 0, refused: 0, compared: 0, slowestMs: 0 };
    const before = process.memoryUsage().rss;
    let mostRss = before;
    for (let i = 0; i < mutants; i++) {
      const mutant = mutate(original, facts, random);
      writeFileSync(join(folder, name), mutant.bytes);
      // The time of this process: other ones run beside the tests.
      const started = process.cpuUsage();
      try {
        const tensors = await readAll(await readStateDict(join(folder, basename(paths[0]!))));
        outcomes.read++;
        // A checkpoint without some of its keys is a checkpoint: whatever is read must be right.
        for (const [key, tensor] of tensors) {
          const known = expected.get(key);
          if (isChecked) expect(known, `mutant ${i}: ${key}`).toBeDefined();
          if (!known || !mustBeRight(mutant, known)) continue;
          expect(tensor, `mutant ${i}: ${key}`).toEqual(known.tensor);
          outcomes.compared++;
        }
        // Data that moved would be read as other values.
        const hasMoved =
          mutant.bytes.length !== original.length && mutant.changed.every((at) => at >= dataAt);
        if (hasMoved) expect(isChecked, `mutant ${i} has data that moved`).toBe(true);
      } catch (error) {
        if (!isTapirError(error)) throw error;
        expect(error.code, `mutant ${i}`).toBe('STATE_INVALID');
        outcomes.refused++;
      }
      const { user, system } = process.cpuUsage(started);
      outcomes.slowestMs = Math.max(outcomes.slowestMs, (user + system) / 1000);
      mostRss = Math.max(mostRss, process.memoryUsage().rss);
    }
    if (mutants > 1000) console.log(title, outcomes, `${Math.round((mostRss - before) / 2 ** 20)} MB more`);
    expect(outcomes.refused).toBeGreaterThan(mutants / 4);
    expect(outcomes.compared).toBeGreaterThan(0);
    expect(outcomes.slowestMs).toBeLessThan(5000);
    expect(mostRss - before).toBeLessThan(100 * 2 ** 20);
  }, 600_000);
});
