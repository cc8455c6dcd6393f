/** timm's weights, from a hub of this machine. Which networks are torchvision's was compared with timm itself. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findTransform, openModel, type Tensor } from 'onnx-tapir';
import { writeStateDict } from 'onnx-tapir/parameters';
import { createModel, listModels, pullTimm } from 'onnx-tapir/zoo';
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { bytesOf } from '../../../src/onnx/tensor/bits.js';
import { scratchFolder } from '../../support/fixtures.js';
import { startHub, type HubServer } from '../../support/hub-server.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const repository = 'timm/resnet18.test_in1k';
const config = {
  architecture: 'resnet18',
  num_classes: 7,
  num_features: 512,
  pretrained_cfg: {
    tag: 'test_in1k',
    input_size: [3, 176, 176],
    interpolation: 'bicubic',
    crop_pct: 0.95,
    mean: [0.5, 0.5, 0.5],
    std: [0.5, 0.5, 0.5],
  },
};
let weights: Uint8Array;
const source = createModel('resnet18', { numClasses: 7, seed: 11 });
beforeAll(async () => {
  const state = new Map<string, Tensor>();
  for (const parameter of (await source).namedParameters()) state.set(parameter.name, await parameter.read());
  await writeStateDict(join(scratch, 'model.safetensors'), state);
  weights = readFileSync(join(scratch, 'model.safetensors'));
});
afterEach(() => vi.unstubAllEnvs());

async function hubWith(json: unknown): Promise<HubServer> {
  const files = { 'config.json': Buffer.from(JSON.stringify(json)), 'model.safetensors': weights };
  const hub = await startHub({ repository, files, cardData: { license: 'apache-2.0' } });
  vi.stubEnv('HF_ENDPOINT', hub.url);
  return hub;
}

describe('pullTimm', () => {
  it('builds the network of the weights, with its transform beside it, once', async () => {
    const { hub, cdn } = await hubWith(config);
    const folder = join(scratch, 'pulled');
    const { path, model, files } = await pullTimm(repository, { folder });
    expect(files).toMatchObject([
      { name: expect.stringMatching(/^resnet18-[0-9a-f]{8}\.onnx$/), isNew: true },
    ]);
    expect(model).toMatchObject({ name: 'timm-resnet18.test_in1k', licence: { spdx: 'apache-2.0' } });
    const { transform, kind } = (await findTransform(path))!;
    expect(kind).toContain('timm');
    expect(transform.options).toMatchObject({
      resize: 185,
      crop: { height: 176, width: 176 },
      interpolation: 'bicubic',
    });
    const [expected, built] = [(await source).parameters(), (await openModel(path)).parameters()];
    for (const [i, parameter] of built.entries()) {
      const [a, b] = [await parameter.read(), await expected[i]!.read()];
      expect(Buffer.compare(bytesOf(a.data), bytesOf(b.data)), parameter.name).toBe(0);
    }
    expect((await pullTimm(`${repository}@main`, { folder })).files[0]).toMatchObject({ isNew: false });
    expect(cdn.requests).toHaveLength(1);
    vi.stubEnv('HF_HUB_OFFLINE', '1');
    const before = hub.requests.length;
    expect((await pullTimm(repository, { folder })).path).toBe(path);
    expect(hub.requests).toHaveLength(before);
  });

  it('is what "tapir models pull" does', async () => {
    await hubWith(config);
    const out = join(scratch, 'mine.onnx');
    const run = await runTapir(['models', 'pull', repository, '-o', out], {
      env: { ...process.env, XDG_CACHE_HOME: join(scratch, 'cache'), HF_HOME: join(scratch, 'hub') },
    });
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining('licence: apache-2.0') as string });
    expect((await openModel(out)).outputs[0]!.dims).toEqual(['batch', 7]);
    expect((await findTransform(out))!.transform.options.crop).toEqual({ height: 176, width: 176 });
  });

  it.each([
    [{ ...config, architecture: 'resnet18d' }, 'its architecture is "resnet18d"'],
    [{ ...config, model_args: { act_layer: 'silu' } }, '{"act_layer":"silu"}'],
    ['text', 'no configuration'],
  ])('refuses a configuration of another network: %o', async (json, message) => {
    await hubWith(json);
    const folder = join(scratch, 'refused');
    await expect(pullTimm(repository, { folder })).rejects.toMatchObject({
      code: 'STATE_INVALID',
      message: expect.stringContaining(message) as string,
    });
    expect(existsSync(join(folder, 'timm-resnet18.test_in1k'))).toBe(false);
  });

  it('asks the hub only for networks that it can build', async () => {
    const { hub } = await hubWith(config);
    const error: unknown = await pullTimm('timm/resnet50d.a1_in1k').catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      code: 'NAME_NOT_FOUND',
      details: { names: [{ nearest: expect.arrayContaining(['timm/resnet50']) as string[] }] },
    });
    const [, list] = /keys \((.*?)\)/.exec((error as Error).message)!;
    for (const network of list!.split(', ')) expect(listModels()).toContain(network);
    await expect(pullTimm('timm/../x')).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    expect(hub.requests).toHaveLength(0);
  });
});
