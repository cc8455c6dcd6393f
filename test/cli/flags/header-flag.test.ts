/** `--header-file`: what is read, and that no refusal shows a secret. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { expect, it } from 'vitest';
import { addHeaderFlag } from '../../../src/cli/flags/header-flag.js';
import { addSettings } from '../../../src/cli/flags/settings.js';
import { LANE_FIELDS } from '../../../src/run/runtime/lanes/lane-options.js';
import { scratchFolder } from '../../support/fixtures.js';

const folder = mkdtempSync(join(scratchFolder(), 'headers-'));
const SECRET = 'hunter2';

function parse(...words: readonly string[]): unknown {
  const command = new Command().exitOverride().configureOutput({ writeErr: () => undefined });
  addHeaderFlag(command);
  addSettings(command, LANE_FIELDS, ['binding']);
  return command.parse(words, { from: 'user' }).opts()['headers'];
}

function fileOf(text: string): string {
  const path = join(folder, 'file.txt');
  writeFileSync(path, text);
  return path;
}

it('reads a line per header', () => {
  const file = fileOf(`Authorization: Bearer ${SECRET}\r\n\nX-Odd:a: b \n`);
  expect(parse('--header-file', file)).toEqual({ Authorization: `Bearer ${SECRET}`, 'X-Odd': 'a: b' });
  expect(parse()).toBeUndefined();
});

mkdirSync(join(folder, SECRET));
it.each([
  ['a line that is none', () => ['--header-file', fileOf(`ok: 1\n${SECRET}`)], /line 2 is none/],
  ['a name that occurs twice', () => ['--header-file', fileOf(`a: ${SECRET}\na: 2`)], /line 2 repeats/],
  ['the same in another case', () => ['--header-file', fileOf(`a: ${SECRET}\nA: 2`)], /occur twice/],
  ['a header of the client', () => ['--header-file', fileOf(`Host: ${SECRET}`)], /sent anyway/],
  ['a value that is no line', () => ['--header-file', fileOf(`a: ${SECRET}\0`)], /one line, in Latin-1/],
  ['a file that is missing', () => ['--header-file', join(folder, `${SECRET}.txt`)], /ENOENT/],
  ['a folder', () => ['--header-file', join(folder, SECRET)], /regular file/],
  ['a setting', () => ['--set', `headers=a: ${SECRET}`], /write --header-file/],
])('refuses %s without showing it', (_what, words, reason) => {
  let message = '';
  try {
    parse(...words());
  } catch (error) {
    ({ message } = error as Error);
  }
  expect(message).toMatch(reason);
  expect(message).not.toContain(SECRET);
});
