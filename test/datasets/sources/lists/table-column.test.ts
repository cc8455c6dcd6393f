import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readTableColumns } from '../../../../src/datasets/sources/lists/table-column.js';
import { scratchFolder } from '../../../support/fixtures.js';

const scratch = scratchFolder();

it('throws the error of a file that cannot be opened, even if the parser must be loaded first', async () => {
  const first = readTableColumns(join(scratch, 'none.csv'), ['path'], ',').next();
  await expect(first).rejects.toMatchObject({ code: 'ENOENT' });
});
