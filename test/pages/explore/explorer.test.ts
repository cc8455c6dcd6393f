import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Explorer } from '../../../src/pages/explore/explorer.js';
import { scratchFolder, tinyResNet } from '../../support/fixtures.js';
import { tinyTowers } from '../../support/explore.js';
import { chain, modelBytes } from '../../support/graphs.js';

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

it('picks what a name stands for, however it is spelled, or refuses it', async () => {
  const path = join(scratchFolder(), 'model.onnx');
  writeFileSync(path, tinyResNet());
  const setup = { transform: 'auto', labels: undefined, device: 'cpu' } as const;
  await using explorer = await Explorer.open(path, path, setup);
  const [layer, relu] = await explorer.pick(['layer4', 'relu']);
  expect(layer).toMatchObject({ request: 'layer4' });
  const { tensor } = explorer.page.nodes[relu!.id]!.outputs[0]!;
  const same = await explorer.pick(['module:layer4', `tensor:${tensor}`, tensor]);
  expect(same).toEqual([layer, relu, relu]);
});

it('picks inputs and further outputs, and refuses weights', async () => {
  const setup = { transform: 'auto', labels: undefined, device: 'cpu' } as const;
  await using explorer = await Explorer.open(tinyTowers(), 'towers.onnx', setup);
  const picked = await explorer.pick(['split:1', 'rest', 'node:topk:1', 'ids', 'split:0', 'tensor:first']);
  expect(picked.map(({ request }) => request)).toEqual([
    'split:1',
    'split:1',
    'topk:1',
    'ids',
    'split:0',
    'split:0',
  ]);
  expect(new Set(picked.map(({ id }) => id)).size).toBe(4);
  await expect(explorer.pick(['sizes'])).rejects.toMatchObject({ code: 'OPTION_INVALID' });
});

it('refuses a model of more nodes than a page shows, before it describes them', async () => {
  const bytes = modelBytes(chain(250_001));
  const setup = { transform: 'auto', labels: undefined, device: 'cpu' } as const;
  await expect(Explorer.open(bytes, 'chain.onnx', setup)).rejects.toMatchObject({
    code: 'GRAPH_INVALID',
    message: expect.stringContaining('250001 nodes are more than the 250000'),
  });
});
