import { linkSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, pruneModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import {
  checkExternalLocations,
  findExternalFiles,
  type ExternalTensor,
} from '../../../src/onnx/file/external-data.js';
import { scratchFolder } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';

const scratch = scratchFolder();
const folder = join(scratch, 'model');
mkdirSync(join(folder, 'inner'), { recursive: true });
mkdirSync(join(folder, 'real', 'deep'), { recursive: true });
mkdirSync(join(scratch, 'elsewhere', 'deep'), { recursive: true });
const file = (path: string, value: number): void =>
  writeFileSync(join(scratch, path), Float32Array.of(value));
file('model/w.bin', 1);
file('model/inner/w.bin', 2);
file('model/real/w.bin', 3);
file('secret.bin', 66);
file('elsewhere/w.bin', 77);
symlinkSync('real/deep', join(folder, 'near'));
symlinkSync('../elsewhere/deep', join(folder, 'far'));
symlinkSync('../model', join(scratch, 'elsewhere', 'back'));
symlinkSync('../secret.bin', join(folder, 'link.bin'));
symlinkSync('w.bin', join(folder, 'near.bin'));
file('model/twice.bin', 1);
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

  it.each([
    ['w.bin', 'w.bin'],
    ['inner/w.bin', 'inner/w.bin'],
    ['near.bin', 'w.bin'],
    ['./w.bin', 'w.bin'],
    ['inner/../w.bin', 'w.bin'],
    ['inner/../inner//w.bin', 'inner/w.bin'],
    ['../model/w.bin', 'w.bin'],
    // The parent of a link is that of its target.
    ['near/../w.bin', 'real/w.bin'],
    ['near/../../w.bin', 'w.bin'],
    ['far/../back/w.bin', 'w.bin'],
  ])('finds %s in the folder, as ONNX Runtime does', async (location, real) => {
    expect(() => checkExternalLocations(at(location), folder)).not.toThrow();
    const found = findExternalFiles(at(location), folder)!;
    expect(found.folder).toBe(realpathSync(folder));
    expect(found.pathOf.get(location)).toBe(realpathSync(join(folder, real)));
    const extractor = await createFeatureExtractor(save(location), ['y']);
    const { y } = await extractor.run({ dtype: 'float32', dims: [1], data: Float32Array.of(0) });
    await extractor.close();
    expect([...y.data]).toEqual([{ 'w.bin': 1, 'inner/w.bin': 2, 'real/w.bin': 3 }[real]]);
  });

  it.each([
    'link.bin',
    'missing.bin',
    'missing/../w.bin',
    'w.bin/../w.bin',
    'inner',
    'inner/..',
    'twice.bin',
    'far/../w.bin',
    '../secret.bin',
    'inner/../../secret.bin',
    'far/../../secret.bin',
  ])('refuses %s', async (location) => {
    expect(() => findExternalFiles(at(location), folder)).toThrow(expect.objectContaining(unsafe(location)));
    await expect(createFeatureExtractor(save(location), ['y'])).rejects.toMatchObject({
      code: 'EXTERNAL_DATA_UNSAFE',
    });
  });

  it('never writes over weights, whatever path the model gives them', async () => {
    const pruned = await pruneModel(save('near/../w.bin'), ['y']);
    await expect(pruned.save(join(folder, 'real/w.bin'), { weights: 'inline' })).rejects.toMatchObject({
      code: 'OUTPUT_UNWRITABLE',
    });
  });
});

/** A model `y = x + w` whose weight lies at a location. */
function save(location: string): string {
  const path = join(folder, 'model.onnx');
  const spec = {
    inputs: [{ name: 'x', dims: [1] }],
    outputs: [{ name: 'y', dims: [1] }],
    initializers: { w: { dims: [1], external: { location } } },
    nodes: [{ op: 'Add', inputs: ['x', 'w'], outputs: ['y'] }],
  };
  writeFileSync(path, modelBytes(spec));
  return path;
}
