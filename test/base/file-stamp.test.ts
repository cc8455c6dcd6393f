import { renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { checkUnchanged, stampOf } from '../../src/base/file-stamp.js';
import { scratchFolder } from '../support/fixtures.js';

const path = join(scratchFolder(), 'model.onnx');

it.each([
  ['written to', () => writeFileSync(path, 'longer')],
  ['touched', () => utimesSync(path, 1, 1)],
  [
    'replaced by a file of the same size and time',
    () => {
      const { atime, mtime } = statSync(path);
      writeFileSync(`${path}.new`, 'same');
      utimesSync(`${path}.new`, atime, mtime);
      renameSync(`${path}.new`, path);
    },
  ],
  ['removed', () => rmSync(path)],
])('a file that is %s is another one', (_what, change) => {
  writeFileSync(path, 'text');
  const opened = { path, stamp: stampOf(statSync(path)) };
  checkUnchanged(opened);
  change();
  expect(() => checkUnchanged(opened)).toThrow(
    expect.objectContaining({ code: 'MODEL_CHANGED', details: { source: path } }),
  );
});
