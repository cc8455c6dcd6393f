/** Devices through the whole house, with the built package: what is asked for is used, or refused with the reason. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, DataParallel, listDevices, type Manifest } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { buildResNet } from '../../models/resnet.js';
import { projectPath, scratchFolder, tinyResNet } from '../support/fixtures.js';
import { answering, playNvidiaSmi, QUERY } from '../support/nvidia.js';
import { runScript, runTapir } from '../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
const embed = [
  'embed',
  projectPath('examples/photos/sea'),
  '--model',
  model,
  '--return',
  'avgpool=v',
  '--out',
];

describe('devices', () => {
  it('of a data-parallel model without a list are the extractor’s own on the CPU', async () => {
    const extractor = await createFeatureExtractor(tinyResNet(), ['fc']);
    const parallel = await DataParallel.create(extractor);
    expect(parallel.devices).toEqual(['cpu']);
    await parallel.close();
    await extractor.close();
  });

  it('that are listed can be asked for', async () => {
    const [cpu] = await listDevices();
    const extractor = await createFeatureExtractor(tinyResNet(), ['fc'], { device: cpu!.device });
    expect(extractor.device).toBe('cpu');
    await extractor.close();
  });

  it('beyond the last GPU are refused, in threads and processes alike', async () => {
    const env = { PATH: playNvidiaSmi(join(scratch, 'smi'), answering(QUERY)), CUDA_VISIBLE_DEVICES: '1' };
    const code = `import { createFeatureExtractor } from 'onnx-tapir';
      for (const isolation of ['thread', 'process'])
        await createFeatureExtractor(${JSON.stringify(model)}, ['fc'], { device: 'cuda:3', isolation })
          .catch((error) => console.log(error.code + ' ' + error.message));`;
    const lines = (await runScript(code, { env })).stdout.trim().split('\n');
    expect(lines).toHaveLength(2);
    for (const line of lines)
      expect(line).toMatch(
        /^DEVICE_UNAVAILABLE cuda:3 cannot be used: there is no GPU 3: one GPU is visible, cuda:0/,
      );
  });
});

describe('tapir embed', () => {
  it('gives the same bits wherever the pixels are normalised, and however many sessions there are', async () => {
    const features = [];
    for (const [name, flags, normalize] of [
      ['plain', [], 'cpu'],
      ['graph', ['--set', 'normalize=graph'], 'graph'],
      ['sessions', ['--set', 'sessions=2', '--set', 'decodeThreads=1'], 'cpu'],
      ['process', ['--set', 'isolation=process', '--set', 'normalize=graph'], 'graph'],
    ] as const) {
      const out = join(scratch, name);
      const threads = ['--set', 'threads=1', '--batch', '4'];
      const ended = await runTapir([...embed, out, ...threads, ...flags]);
      expect(ended, ended.stderr).toMatchObject({ code: 0 });
      const manifest = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as Manifest;
      expect(manifest.run?.normalize).toBe(normalize);
      features.push(readFileSync(join(out, 'features/v/v-00000.npy')));
    }
    for (const each of features) expect(each.equals(features[0]!)).toBe(true);
  });

  it('runs in a process of its own if told', async () => {
    const ended = await runTapir([...embed, join(scratch, 'out'), '--set', 'isolation=process']);
    expect(ended).toMatchObject({ code: 0 });
  });

  it.each([
    [
      'a folder of libraries that is missing',
      ['--device', 'cuda', '--set', 'cudaLibraries=/no/folder'],
      /a folder that exists/,
    ],
    ['an unknown isolation', ['--set', 'isolation=vm'], /"thread", "process"|thread, process/],
  ])('refuses %s', async (_what, flags, message) => {
    const ended = await runTapir([...embed, join(scratch, 'none'), ...flags]);
    expect(ended.code).toBe(2);
    expect(ended.stderr).toMatch(message);
  });
});
