import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readTableColumn } from '../../../src/sources/lists/table-column.js';
import { scratchFolder } from '../../support/fixtures.js';

const scratch = scratchFolder();

it('throws the error of a file that cannot be opened, even if it comes while the parser loads', async () => {
  const file = join(scratch, 'none.csv');
  const bytes = createReadStream(file);
  await new Promise((resolve) => void bytes.once('error', resolve));
  await expect(readTableColumn(bytes, file, 'path', ',').next()).rejects.toThrow('ENOENT');
});

it('does not leave an error without a listener', async () => {
  const file = join(scratch, 'none.csv');
  const first = readTableColumn(createReadStream(file), file, 'path', ',').next();
  await expect(first).rejects.toMatchObject({ code: 'ENOENT' });
});
