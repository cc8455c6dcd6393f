import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkExternalFiles, checkExternalLocations } from '../../src/onnx/external-data.js';
import { scratchFolder } from '../support/fixtures.js';

const scratch = scratchFolder();
const folder = join(scratch, 'model');
mkdirSync(join(folder, 'inner'), { recursive: true });
writeFileSync(join(folder, 'w.bin'), 'weights');
writeFileSync(join(folder, 'inner', 'w.bin'), 'weights');
writeFileSync(join(scratch, 'secret.bin'), 'secret');
symlinkSync('../secret.bin', join(folder, 'link.bin'));
symlinkSync('w.bin', join(folder, 'near.bin'));
writeFileSync(join(folder, 'twice.bin'), 'x');
linkSync(join(folder, 'twice.bin'), join(folder, 'twice-again.bin'));

const at = (location: string): { tensor: string; location: string }[] => [{ tensor: 'w', location }];
const unsafe = (location: string): object => ({
  code: 'EXTERNAL_DATA_UNSAFE',
  details: expect.objectContaining({ location, tensor: 'w' }) as unknown,
});

describe('external data', () => {
  it.each([
    '/etc/passwd',
    '../secret.bin',
    'a/../../secret.bin',
    'C:\\x',
    '\\\\host\\x',
    '',
    '.',
    '*/_ORT_MEM_ADDR_/*',
    'a\0b',
  ])('refuses the location %j without touching a file', (location) => {
    expect(() => checkExternalLocations(at(location))).toThrow(expect.objectContaining(unsafe(location)));
  });

  it('lists each file once', () => {
    expect(checkExternalLocations([...at('w.bin'), ...at('inner/w.bin'), ...at('w.bin')])).toEqual([
      'w.bin',
      'inner/w.bin',
    ]);
  });

  it.each(['w.bin', 'inner/w.bin', 'near.bin'])('accepts %s in the folder', (location) => {
    expect(() => checkExternalFiles(at(location), folder)).not.toThrow();
  });

  it.each(['link.bin', 'missing.bin', 'inner', 'twice.bin'])('refuses %s', (location) => {
    expect(() => checkExternalFiles(at(location), folder)).toThrow(expect.objectContaining(unsafe(location)));
  });
});
