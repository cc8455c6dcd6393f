import { appendFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { DatasetIdentity } from '../../../src/datasets/records/dataset-identity.js';
import { JOURNAL_FILE } from '../../../src/datasets/files/file-names.js';
import {
  JournalWriter,
  readJournal,
  type JournalOpen,
  type JournalShard,
} from '../../../src/datasets/files/journal.js';
import { NOTHING_REDUCED } from '../../../src/datasets/records/reduced-images.js';
import { IDENTITY } from '../../support/datasets.js';
import { scratchFolder } from '../../support/fixtures.js';

const { engine: _engine, precision: _precision, ...stored } = IDENTITY;
const identity: DatasetIdentity = { ...stored, engine: 'openvino', precision: 'bfloat16' };
const shard = (number: number): JournalShard => ({
  type: 'shard',
  number,
  inputs: 4,
  rows: 3,
  firstRow: 3 * number,
  metadata: `metadata/metadata-0000${number}.parquet`,
  features: {},
  reduced: NOTHING_REDUCED,
});

async function write(shards: number): Promise<string> {
  const folder = mkdtempSync(join(scratchFolder(), 'journal-'));
  const journal = await JournalWriter.open(folder, identity, undefined);
  for (let number = 0; number < shards; number++) await journal.append(shard(number));
  await journal[Symbol.asyncDispose]();
  return folder;
}

describe('the journal', () => {
  it('reads back what was written', async () => {
    const folder = await write(3);
    const { size } = { size: readFileSync(join(folder, JOURNAL_FILE)).length };
    expect(await readJournal(folder)).toEqual({
      identity,
      shards: [shard(0), shard(1), shard(2)],
      runs: [],
      bytes: size,
    });
    expect(await readJournal(join(folder, 'none'))).toBeUndefined();
  });

  it('completes the identity of a dataset from before there were engines and precisions', async () => {
    const folder = mkdtempSync(join(scratchFolder(), 'journal-'));
    await (await JournalWriter.open(folder, stored as DatasetIdentity, undefined))[Symbol.asyncDispose]();
    expect((await readJournal(folder))?.identity).toEqual({
      ...stored,
      engine: 'onnxruntime',
      precision: 'float32',
    });
  });

  it('loses nothing but its last line, wherever it was cut', async () => {
    const folder = await write(3);
    const path = join(folder, JOURNAL_FILE);
    const whole = readFileSync(path);
    const ends = [...whole.keys()].filter((at) => whole[at] === 10).map((at) => at + 1);
    for (let length = 0; length <= whole.length; length++) {
      writeFileSync(path, whole.subarray(0, length));
      const content = await readJournal(folder);
      const lines = ends.filter((end) => end <= length).length;
      expect(content?.shards.length ?? -1, `cut at ${length}`).toBe(lines - 1);
      if (!content) continue;
      // It goes on after what is whole.
      const journal = await JournalWriter.open(folder, identity, content);
      await journal.append(shard(lines - 1));
      await journal[Symbol.asyncDispose]();
      expect((await readJournal(folder))?.shards).toHaveLength(lines);
    }
  });

  it('takes a last line of zeros, as a machine that went down leaves it, for none', async () => {
    const folder = await write(2);
    appendFileSync(join(folder, JOURNAL_FILE), `${'\0'.repeat(40)}\n`);
    const content = await readJournal(folder);
    expect(content?.shards).toHaveLength(2);
    const journal = await JournalWriter.open(folder, identity, content);
    await journal.append(shard(2));
    await journal[Symbol.asyncDispose]();
    expect((await readJournal(folder))?.shards).toHaveLength(3);
  });

  it('knows the shard that is not full, as it stood last, until it is finished', async () => {
    const folder = await write(1);
    const content = await readJournal(folder);
    const open = (number: number, pieces: number): JournalOpen => ({
      ...shard(number),
      type: 'open',
      pieces,
    });
    const openAfter = async (...entries: (JournalShard | JournalOpen)[]): Promise<unknown> => {
      const journal = await JournalWriter.open(folder, identity, content);
      for (const entry of entries) await journal.append(entry);
      await journal[Symbol.asyncDispose]();
      return (await readJournal(folder))?.open;
    };
    expect(await openAfter(open(1, 1), open(1, 2))).toEqual(open(1, 2));
    expect(await openAfter(open(1, 1), shard(1))).toBeUndefined();
    expect(await openAfter(open(1, 1), shard(1), open(2, 1))).toEqual(open(2, 1));
    await expect(openAfter({ ...open(1, 1), pieces: -1 })).rejects.toThrow(/line 3: "pieces" is missing/);
  });

  it.each([
    ['damage before its end', (text: string) => text.replace('"number":0', '"number":'), /line 2 is damaged/],
    [
      'a missing shard',
      (text: string) => text.replace(/\{"type":"shard","number":0.*\n/, ''),
      /shard 1 is where/,
    ],
    [
      'rows that do not add up',
      (text: string) => text.replace('"firstRow":3', '"firstRow":4'),
      /shard 1 begins at row 4, not 3/,
    ],
    ['another version', (text: string) => text.replace('"formatVersion":1', '"formatVersion":2'), /version/],
    ['another file', () => '{"type":"x"}\n{}\n', /first line/],
  ])('refuses %s', async (_what, change, message) => {
    const folder = await write(3);
    const path = join(folder, JOURNAL_FILE);
    writeFileSync(path, change(readFileSync(path, 'utf8')));
    await expect(readJournal(folder)).rejects.toMatchObject({ code: 'DATASET_INVALID', message });
  });

  it('says when it cannot be written', async () => {
    await expect(JournalWriter.open('/proc/none', identity, undefined)).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
    });
  });
});
