/** `--set key=value` and `--config FILE`: values of options without a flag, and what is refused. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { boolean, integer, oneOf, optional, text, texts, type Fields } from '../../../src/base/options.js';
import { addFlags } from '../../../src/cli/flags/option-flags.js';
import { addSettings } from '../../../src/cli/flags/settings.js';
import { TapirCommand } from '../../../src/cli/program.js';
import { scratchFolder } from '../../support/fixtures.js';

interface Named {
  readonly shardSize: number;
  readonly checksum: boolean;
  readonly cache: 'auto' | 'off';
  readonly folder: string | undefined;
  readonly recompute: readonly string[];
  readonly batch: number;
  readonly outputs: readonly string[];
}

const FIELDS: Fields<Named> = {
  shardSize: integer(1, 100, 8, 'inputs per file'),
  checksum: boolean(false, 'hash each file'),
  cache: oneOf(['auto', 'off'], 'auto', 'the cache'),
  folder: optional(text('', 'a folder')),
  recompute: texts([], 'values'),
  batch: integer(0, 64, 0, 'rows'),
  outputs: texts([], 'outputs'),
};
const DEFAULTS = { shardSize: 8, checksum: false, cache: 'auto', batch: 0, open: true };
const scratch = scratchFolder();

function read(...words: readonly string[]): object {
  const command = new TapirCommand('embed').exitOverride().configureOutput({ writeErr: () => undefined });
  command.requiredOption('--out <folder>').option('--no-open').option('--json').option('--cam [layer]');
  addFlags(command, FIELDS, { batch: '--batch <n>', outputs: '--output <key>' });
  addSettings(command, FIELDS, ['shardSize', 'checksum', 'cache']);
  addSettings(command, FIELDS, ['folder', 'recompute']);
  return command.parse(words, { from: 'user' }).opts();
}

function config(options: unknown): string[] {
  const file = join(scratch, 'run.json');
  writeFileSync(file, typeof options === 'string' ? options : JSON.stringify(options));
  return ['--config', file];
}

it('have the defaults of their fields', () => {
  expect(read('--out', 'o')).toEqual({ ...DEFAULTS, out: 'o', folder: undefined });
});

it('are read as their fields say, texts one by one', () => {
  const words = ['shardSize=5', 'checksum=true', 'cache=off', 'folder=a=b', 'recompute=a', 'recompute=b'];
  expect(read('--out', 'o', ...words.flatMap((word) => ['--set', word]))).toMatchObject({
    shardSize: 5,
    checksum: true,
    cache: 'off',
    folder: 'a=b',
    recompute: ['a', 'b'],
  });
});

it('come from a file too, with flags; the command line wins', () => {
  const file = config({
    shardSize: 5,
    cache: 'off',
    recompute: ['a'],
    out: 'there',
    batch: 3,
    outputs: ['x', 'y'],
    open: false,
    json: true,
    cam: true,
  });
  const all = { shardSize: 5, cache: 'off', recompute: ['a'], out: 'there', batch: 3, outputs: ['x', 'y'] };
  expect(read(...file)).toMatchObject({ ...all, open: false, json: true, cam: true });
  expect(
    read('--set', 'shardSize=6', ...file, '--batch', '4', '--output', 'z', '--out', 'here'),
  ).toMatchObject({ ...all, shardSize: 6, batch: 4, outputs: ['z'], out: 'here' });
});

it.each([
  [['--set', 'shardsize=5'], 'option "--set" must be one of shardSize (4 more), got "shardsize"'],
  [['--set', 'colour=5'], /one of shardSize, checksum, cache, folder, recompute, got "colour"/],
  [['--set', 'batch=5'], /"--set" must be an option without a flag: write --batch/],
  [['--set', 'checksum'], /a key with its value: checksum=…/],
  [['--set', 'shardSize=0'], 'option "--set shardSize" must be an integer from 1 to 100, got 0'],
  [['--set', 'shardSize=five'], /"--set shardSize" must be an integer/],
  [['--set', 'cache=on'], /"--set cache" must be .*"?auto"?, "?off/],
  [['--shard-size', '5'], "unknown option '--shard-size': write --set shardSize=…"],
  [['--shard-size=5'], /write --set shardSize=5/],
  [['--no-checksum'], /write --set checksum=false/],
  [['--checksum', '--out', 'o'], /write --set checksum=true/],
])('refuse %j', (words, message) => {
  expect(() => read('--out', 'o', ...words)).toThrow(message);
});

it('name a former flag before a missing one', () => {
  expect(() => read('--shard-size', '5')).toThrow(/write --set shardSize/);
});

it.each([
  [{ shardsize: 5 }, /"--config" must be one of shardSize \(\d+ more\), got "shardsize"/],
  [{ shardSize: 0 }, /"--config shardSize" must be an integer/],
  [{ checksum: 'yes' }, /"--config checksum" must be true or false/],
  [{ open: 1 }, /"--config open" must be true or false/],
  [{ batch: 99 }, /"--batch" must be an integer/],
  [['shardSize'], /a JSON file with an object of options \(it holds something else\)/],
  ['{', /a JSON file with an object of options \(it is no JSON/],
])('refuse a file of %j', (options, message) => {
  expect(() => read('--out', 'o', ...config(options))).toThrow(message);
});

it('refuse a file that does not exist', () => {
  expect(() => read('--out', 'o', '--config', join(scratch, 'none.json'))).toThrow(/there is no such file/);
});
