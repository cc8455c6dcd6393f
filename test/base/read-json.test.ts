/** JSON files of others: read, absent, or refused; never silently dropped. */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { endOfText, readJson } from '../../src/base/read-json.js';
import { scratchFolder } from '../support/fixtures.js';

const folder = scratchFolder();
let count = 0;

const refuse = (reason: string, cause: unknown): Error => new Error(`REFUSED ${reason}`, { cause });

function write(content: string | Uint8Array): string {
  const path = join(folder, `${count++}.json`);
  writeFileSync(path, content);
  return path;
}

describe('readJson', () => {
  it('gives the value, with and without a byte order mark', () => {
    expect(readJson(write('{"a": ["ü", 1]}'), refuse)).toEqual({ a: ['ü', 1] });
    expect(readJson(write('\uFEFF{"a": "\\"[{"}'), refuse)).toEqual({ a: '"[{' });
    expect(readJson(write('null'), refuse)).toBeNull();
  });

  it('gives undefined only where no file is', () => {
    expect(readJson(join(folder, 'missing.json'), refuse)).toBeUndefined();
    expect(readJson(join(write('{}'), 'below a file.json'), refuse)).toBeUndefined();
    expect(readJson(join(folder, `${'n'.repeat(300)}.json`), refuse)).toBeUndefined();
  });

  it('reads what is large and flat: 2 MB with 43,682 names', () => {
    const names = Array.from({ length: 21_841 }, (_, i) => `n${String(i).padStart(8, '0')}`);
    const value = {
      label_names: names,
      descriptions: Object.fromEntries(names.map((n) => [n, 'x'.repeat(60)])),
    };
    expect(readJson(write(JSON.stringify(value)), refuse)).toEqual(value);
  });

  it.each([
    ['damaged', '{"a": 1', /JSON/],
    ['empty', '', /JSON/],
    ['no UTF-8', Uint8Array.of(0x22, 0xff, 0x22), /no JSON in UTF-8/],
    ['too deep', '['.repeat(65) + ']'.repeat(65), /nested more than 64 levels deep/],
    ['deep in 5 MB', '{"a":'.repeat(1_000_000), /nested more than 64 levels deep/],
    ['too many values', `[${'0,'.repeat(4_000_000)}0]`, /more than 4000000 values/],
  ])('refuses a file that is %s, at once', (_, content, reason) => {
    const path = write(content);
    const before = process.cpuUsage();
    expect(() => readJson(path, refuse)).toThrow(reason);
    expect(process.cpuUsage(before).user).toBeLessThan(1e6);
  });

  it('refuses what may not be read, and links in a circle', () => {
    symlinkSync('circle.json', join(folder, 'circle.json'));
    expect(() => readJson(join(folder, 'circle.json'), refuse)).toThrow('REFUSED ELOOP');
    const path = write('{}');
    chmodSync(path, 0o000);
    // root may read everything.
    if (process.getuid!() !== 0) expect(() => readJson(path, refuse)).toThrow('REFUSED EACCES');
  });

  it('refuses folders, pipes and devices without waiting for them', () => {
    mkdirSync(join(folder, 'folder.json'));
    execFileSync('mkfifo', [join(folder, 'pipe.json')]);
    for (const path of ['folder.json', 'pipe.json'].map((name) => join(folder, name)).concat('/dev/zero'))
      expect(() => readJson(path, refuse)).toThrow('REFUSED it is no regular file');
  });
});

it('finds the end of a text behind escapes', () => {
  const end = (text: string): number => endOfText(Buffer.from(text), 0);
  expect([end('"a"'), end(String.raw`"\""x`), end(String.raw`"\\"x"`), end('"open')]).toEqual([2, 3, 3, 4]);
});
