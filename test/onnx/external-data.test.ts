import { linkSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  checkExternalLocations,
  findExternalFiles,
  payloadRange,
  type ExternalTensor,
} from '../../src/onnx/external-data.js';
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

const field = { number: 5, wireType: 2, start: 0, bodyStart: 0, end: 0, int: 0 };
const at = (location: string, more: Readonly<Record<string, string>> = {}): ExternalTensor[] => {
  const external = new Map(Object.entries({ location, ...more }));
  return [
    { name: 'w', location, owner: field, tensor: { field, name: 'w', elemType: 2, dims: [3], external } },
  ];
};
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
    expect(() => findExternalFiles(at(location), folder)).not.toThrow();
  });

  it.each(['link.bin', 'missing.bin', 'inner', 'twice.bin'])('refuses %s', (location) => {
    expect(() => findExternalFiles(at(location), folder)).toThrow(expect.objectContaining(unsafe(location)));
  });

  it('finds ranges, with and without a stated length', () => {
    const files = findExternalFiles(at('w.bin'), folder);
    const range = (more: Readonly<Record<string, string>>): unknown =>
      payloadRange(at('w.bin', more)[0]!, files);
    expect(range({ offset: '2', length: '3' })).toMatchObject({ start: 2, end: 5 });
    expect(range({})).toMatchObject({ start: 0, end: 3 });
    for (const more of [
      { offset: '5' },
      { offset: '-1' },
      { offset: 'x' },
      { length: '4' },
      { offset: '99999999999999999999' },
    ])
      expect(() => range(more)).toThrow(expect.objectContaining(unsafe('w.bin')));
  });
});
