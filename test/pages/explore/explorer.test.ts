import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Explorer } from '../../../src/pages/explore/explorer.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';

it('measures again after a measurement that failed', async () => {
  const path = join(scratchFolder(), 'model.onnx');
  writeFileSync(path, tinyResNet());
  const setup = { transform: 'auto', labels: undefined, device: 'cpu' } as const;
  await using explorer = await Explorer.open(path, path, setup);
  renameSync(path, `${path}.away`);
  await expect(explorer.measure(false)).rejects.toMatchObject({ code: 'MODEL_UNREADABLE' });
  renameSync(`${path}.away`, path);
  expect(await explorer.measure(false)).toBe(await explorer.measure(false));
});
