/**
 * Files that ask for more work than their size suggests, a tenth as large as they may be: each is read or refused with a typed error, and
 * costs little time. At full size a file of 5 MB takes 2 s at most.
 */
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readTableLabels } from '../src/datasets/labels/label-tables.js';
import { readProbe } from '../src/products/features/probe/probe-file.js';
import { parseVectors } from '../src/products/features/search/read-vectors.js';
import { isTapirError } from '../src/base/errors.js';
import { openModel } from '../src/run/model/open/open-model.js';
import { readStateDict } from '../src/learn/parameters/dicts/read-state-dict.js';
import { readTokenizerFiles } from '../src/products/features/text/text-tower.js';
import { createTokenizer } from '../src/products/features/text/tokenizer/tokenizer.js';
import { fixturePath, scratchFolder } from './support/fixtures.js';
import { hostileCheckpoints } from './support/hostile-pickles.js';
import { hostileJson, hostileTables } from './support/hostile-texts.js';
import { readTextJson } from './support/text-models.js';

const SIZE = 0.1;
const MOST_SECONDS = 2;
const scratch = scratchFolder();

type Files = Readonly<Record<string, () => string | Buffer>>;

async function expectAnswers(files: Files, ending: string, read: (path: string) => unknown): Promise<void> {
  const faults: string[] = [];
  const path = join(scratch, `file${ending}`);
  for (const [name, make] of Object.entries(files)) {
    writeFileSync(path, make());
    const start = process.cpuUsage();
    try {
      // oxlint-disable-next-line no-await-in-loop -- the time of one file
      await read(path);
    } catch (error) {
      if (!isTapirError(error)) faults.push(`${name}: ${String(error).slice(0, 200)}`);
      else if (error.message.length > 5000)
        faults.push(`${name}: a message of ${error.message.length} characters`);
    }
    const { user, system } = process.cpuUsage(start);
    if (user + system > MOST_SECONDS * 1e6) faults.push(`${name}: ${(user + system) / 1e6} s`);
  }
  expect(faults).toEqual([]);
}

describe('checkpoints of torch', () => {
  it('are answered', async () => {
    await expectAnswers(hostileCheckpoints(SIZE), '.pth', readStateDict);
  });

  it.each([
    'ordered dicts of a list of pairs',
    'ordered dicts of one pair, again and again',
    'ordered dicts that are dropped',
    'a map of marks for each tensor',
    'a map of marks for each tensor of a newer type',
    'the older form: ordered dicts',
    'the older form: work before a cut',
  ])('are charged for %s', async (name) => {
    const path = join(scratch, 'charged.pth');
    writeFileSync(path, hostileCheckpoints(SIZE)[name]!());
    await expect(readStateDict(path)).rejects.toThrow(/more than 1048576 steps/);
  });
});

const probeWith =
  (field: string) =>
  (value: string): string => {
    const head = '{"type":"linear","weight":"float64:AAAA","bias":"float64:AAAA","activation":"softmax"}';
    const fields = { classes: '["a"]', dims: '[2]', head, [field]: value };
    const members = Object.entries(fields).map(([name, text]) => `"${name}":${text}`);
    return `{"format":"onnx-tapir probe","formatVersion":1,${members.join()}}`;
  };
const tokenizer = readTextJson<object>('bert/tokenizer.json.gz');
const tokenizerWith =
  (field: string) =>
  (value: string): string =>
    JSON.stringify({ ...tokenizer, [field]: '@' }).replace('"@"', () => value);
const header = (json: string): Buffer => {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(json)));
  return Buffer.concat([length, Buffer.from(json)]);
};
const headers = (files: Readonly<Record<string, () => string>>): Files =>
  Object.fromEntries(Object.entries(files).map(([name, make]) => [name, () => header(make())]));

describe('JSON', () => {
  it.each(['', 'classes', 'dims', 'head'])('of a probe %s', async (field) => {
    await expectAnswers(hostileJson(SIZE, field === '' ? undefined : probeWith(field)), '.json', readProbe);
  });

  it.each(['model', 'added_tokens', 'normalizer', 'pre_tokenizer', 'post_processor'])(
    'of a tokenizer, %s',
    async (field) => {
      const folder = join(scratch, field);
      mkdirSync(folder);
      await expectAnswers(hostileJson(SIZE, tokenizerWith(field)), '.json', (path) => {
        copyFileSync(path, join(folder, 'tokenizer.json'));
        const files = readTokenizerFiles(folder);
        return createTokenizer(files.tokenizer, files.path).encode('a photo of a cat', 77, 'right');
      });
    },
  );

  it('of safetensors and their index', async () => {
    await expectAnswers(
      headers(hostileJson(SIZE, (value) => `{"__metadata__":${value}}`)),
      '.safetensors',
      readStateDict,
    );
    await expectAnswers(
      hostileJson(SIZE, (value) => `{"weight_map":${value}}`),
      '.json',
      readStateDict,
    );
  });

  it('of names beside a model', async () => {
    const model = join(scratch, 'named.onnx');
    copyFileSync(fixturePath('sidecar/googlenet.ts.onnx'), model);
    await expectAnswers(hostileJson(SIZE), '.json', (path) => {
      copyFileSync(path, `${model}.names.json`);
      return openModel(model);
    });
  });

  it('of vectors', async () => {
    await expectAnswers(hostileJson(SIZE), '.json', (path) => parseVectors(readFileSync(path), path));
  });
});

it.each(['.csv', '.tsv'])('tables of labels: %s', async (ending) => {
  const delimiter = ending === '.csv' ? ',' : '\t';
  const tables = Object.entries(hostileTables(SIZE)).map(([name, make]): [string, () => string] => [
    name,
    () => make().replaceAll(',', delimiter),
  ]);
  await expectAnswers(Object.fromEntries(tables), ending, readTableLabels);
});

it('a pattern of megabytes is refused before it is compiled', () => {
  const split = {
    type: 'Split',
    pattern: { Regex: 'a|'.repeat(2_000_000) },
    behavior: 'Isolated',
    invert: false,
  };
  expect(() => createTokenizer({ ...tokenizer, pre_tokenizer: split } as never, 'tokenizer.json')).toThrow(
    expect.objectContaining({
      code: 'TOKENIZER_INVALID',
      message: expect.stringContaining('65536 characters'),
    }),
  );
});

it('doubling normalizers of a tokenizer are refused before the memory is full', () => {
  const normalizers = Array.from({ length: 40 }, () => ({
    type: 'Replace',
    pattern: { String: 'a' },
    content: 'aa',
  }));
  const json = { ...tokenizer, normalizer: { type: 'Sequence', normalizers } };
  const doubling = createTokenizer(json as never, 'tokenizer.json');
  expect(() => doubling.encode('a photo of a cat', 77, 'right')).toThrow(
    expect.objectContaining({ code: 'TOKENIZER_INVALID' }),
  );
});

it.each([
  ['pre_tokenizer', { type: 'Split', pattern: { Regex: '(a+)+$' }, behavior: 'Isolated', invert: false }],
  [
    'normalizer',
    { type: 'Sequence', normalizers: [{ type: 'Replace', pattern: { Regex: '(a+)+$' }, content: '' }] },
  ],
])('a pattern that would take years for a text ends, in %s', (section, part) => {
  const hostile = createTokenizer({ ...tokenizer, [section]: part } as never, 'tokenizer.json');
  expect(hostile.encode('a', 8, 'right')).not.toEqual([]);
  expect(() => hostile.encode(`${'a'.repeat(60)}b`, 77, 'right')).toThrow(
    expect.objectContaining({ code: 'TOKENIZER_INVALID', message: expect.stringContaining('2000 ms') }),
  );
});
