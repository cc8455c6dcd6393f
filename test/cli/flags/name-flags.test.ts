/** Messages of the library in the words of a command. */
import { addPhotoFlags } from '../../../src/cli/flags/photo-flags.js';
import { Command } from 'commander';
import { expect, it } from 'vitest';
import { addSettings } from '../../../src/cli/flags/settings.js';
import { LANE_FIELDS } from '../../../src/run/runtime/lanes/lane-options.js';
import { nameFlags } from '../../../src/cli/flags/name-flags.js';

const command = new Command()
  .argument('<source>')
  .option('--return <name>')
  .option('--text-model <file>')
  .option('--transform <name>')
  .option('--no-cache');
addPhotoFlags(command, ['tiles', 'clips']);
addSettings(command, LANE_FIELDS, ['cudaLibraries']);

it.each([
  ['option "textModel" must be a path', '--text-model must be a path'],
  ['option "returnNodes" must be for both models', '--return must be for both models'],
  ['option "cudaLibraries" must be a folder', '--set cudaLibraries must be a folder'],
  ['option "clips" must be left out', '--clip must be left out'],
  ['option "clips.stride" must be 1', '"stride" of --clip must be 1'],
  ['option "tiles" must be left out, without option "source"', '--tile must be left out, without <source>'],
  ['option "tiles.minStd" must be 8', '"minStd" of --tile must be 8'],
  ['option "crops" must be "center"', '--transform must be "center"'],
  ['option "transform.crops" must be "center"', '"crops" of --transform must be "center"'],
  ['option "--shard" must be i/n, option "[images...]" given', '--shard must be i/n, [images...] given'],
  [
    'option "cache" or option "memoryBytes", got "textModel"',
    '--no-cache or option "memoryBytes", got "textModel"',
  ],
])('%s', (message, named) => {
  expect(nameFlags(message, command)).toBe(named);
});

it('before a command is known, names flags only', () => {
  expect(nameFlags('option "--top" and option "top"', undefined)).toBe('--top and option "top"');
});
