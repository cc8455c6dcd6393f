import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readTableRows } from '../../../../src/datasets/sources/lists/table-rows.js';
import { scratchFolder } from '../../../support/fixtures.js';

const scratch = scratchFolder();

it('throws the error of a file that cannot be opened, even if the parser must be loaded first', async () => {
  const first = readTableRows(join(scratch, 'none.csv'), ['path'], ',', {}).next();
  await expect(first).rejects.toMatchObject({ code: 'ENOENT' });
});
