import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { loadTiles } from 'onnx-tapir';
import sharp from 'sharp';
import { partName } from '../../../../src/photos/images/pixels/tile-grid.js';
import { Explorer } from '../../../../src/products/pages/explore/explorer.js';
import { scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { tinyTowers } from '../../../support/explore.js';
import { chain, modelBytes } from '../../../support/graphs.js';

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

it('cuts a picture into tiles from all over it, as loadTiles does', async () => {
  const tiles = { size: 64, minStd: 8 };
  const setup = { transform: 'auto', labels: undefined, device: 'cpu', tiles } as const;
  await using explorer = await Explorer.open(tinyResNet(), 'net.onnx', setup);
  // Grey on the left half, stripes on the right.
  const [width, height] = [512, 256];
  const pixels = Buffer.from(
    Array.from({ length: width * height * 3 }, (_, i) => {
      const x = Math.floor(i / 3) % width;
      return x < width / 2 ? 128 : (x % 16) * 16;
    }),
  );
  const png = await sharp(pixels, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer();
  const photos = await explorer.addPhoto(png, 'slide.png');
  const all: string[] = [];
  for await (const image of loadTiles(png, {}, tiles)) all.push(`slide.png${partName(image)}`);
  expect(all).toHaveLength(16);
  const names = photos.map(({ name }) => name);
  expect(names.filter((name) => !all.includes(name))).toEqual([]);
  // 12 stretches of 32 tiles, of which those of the left half alone have nothing to show.
  expect(names.length).toBeGreaterThanOrEqual(8);
  expect(new Set(names).size).toBe(names.length);
  for (const { place, picture } of photos) {
    expect(place).toMatchObject({ width: 64 / width, height: 64 / height });
    expect(place!.left).toBeGreaterThanOrEqual(0.5);
    expect(place!.picture).toBe(photos[0]!.place!.picture);
    expect(place!.picture).not.toBe(picture);
  }
  const { dims } = await explorer.features('layer4', photos[0]!.id);
  expect(dims[0]).toBe(1);
  const grey = await sharp({ create: { width: 200, height: 100, channels: 3, background: '#888' } })
    .png()
    .toBuffer();
  await expect(explorer.addPhoto(grey, 'grey.png')).rejects.toMatchObject({ code: 'IMAGE_MISFIT' });
  await expect(
    Explorer.open(tinyResNet(), 'net.onnx', { ...setup, tiles: { size: 0 } }),
  ).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    message: expect.stringContaining('tiles.size') as string,
  });
});

it('refuses a model of more nodes than a page shows, before it describes them', async () => {
  const bytes = modelBytes(chain(250_001));
  const setup = { transform: 'auto', labels: undefined, device: 'cpu' } as const;
  await expect(Explorer.open(bytes, 'chain.onnx', setup)).rejects.toMatchObject({
    code: 'GRAPH_INVALID',
    message: expect.stringContaining('250001 nodes are more than the 250000'),
  });
});
