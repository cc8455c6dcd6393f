/** torchvision's weights, from a server of this machine: the real one is never asked here. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  findTransform,
  openModel,
  transformFromConfig,
  type Tensor,
} from 'onnx-tapir';
import { writeStateDict } from 'onnx-tapir/parameters';
import { createModel, listModels } from 'onnx-tapir/zoo';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  findTorchvisionModel,
  listTaskWeights,
  pullTorchvision,
} from '../../../src/learn/zoo/pull-torchvision.js';
import { sendFile, startServer } from '../../support/file-server.js';
import { projectPath, scratchFolder } from '../../support/fixtures.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const table = JSON.parse(readFileSync(projectPath('models/torchvision-weights.json'), 'utf8')) as {
  readonly networks: Readonly<
    Record<
      string,
      {
        readonly task?: string;
        readonly enum: string;
        readonly default: string;
        readonly files: Record<string, string>;
      }
    >
  >;
};

/** A checkpoint of the network. It is no pickle, but its reader looks at the bytes, not at the name. */
let checkpoint: Buffer;
beforeAll(async () => {
  const model = await createModel('squeezenet1_1', { seed: 7 });
  const state = new Map<string, Tensor>();
  for (const parameter of model.namedParameters()) state.set(parameter.name, await parameter.read());
  await writeStateDict(join(scratch, 'weights.safetensors'), state);
  checkpoint = readFileSync(join(scratch, 'weights.safetensors'));
});

const digits = (): string => createHash('sha256').update(checkpoint).digest('hex').slice(0, 8);

/** A list with one network, whose checkpoint a server of this machine has. */
function list(url: string, ending: string): string {
  const path = join(scratch, `weights-${ending}.json`);
  const files = { IMAGENET1K_V1: `squeezenet1_1-${ending}.pth` };
  const entry = { enum: 'SqueezeNet1_1_Weights', default: 'IMAGENET1K_V1', files };
  writeFileSync(path, JSON.stringify({ baseUrl: `${url}/`, networks: { squeezenet1_1: entry } }));
  return path;
}

describe('pullTorchvision', () => {
  it('knows networks that can be built, files with digits of their SHA-256, and transforms', () => {
    const known = new Set(listModels());
    for (const [network, entry] of Object.entries(table.networks)) {
      if (entry.task === 'optical flow') continue;
      expect(known).toContain(network);
      expect(Object.keys(entry.files)).toContain(entry.default);
      for (const [weights, file] of Object.entries(entry.files)) {
        expect(file).toMatch(/-[0-9a-f]{8,}\.pth$/);
        const { outputSize } = transformFromConfig(`torchvision:${entry.enum}.${weights}`);
        expect(outputSize === null).toBe(entry.task === 'segmentation' || entry.task === 'detection');
      }
    }
  });

  it('lists the weights of other tasks, and says which networks are not built', async () => {
    const listed = listTaskWeights();
    expect(listed.length).toBe(37);
    expect(listed.filter(({ isBuilt }) => !isBuilt).map(({ task }) => task)).toEqual(
      Array<string>(8).fill('optical flow'),
    );
    const { stdout } = await runTapir(['models', 'list', '--json']);
    expect(JSON.parse(stdout)).toContainEqual(
      expect.objectContaining({
        name: 'torchvision/s3d@KINETICS400_V1',
        task: 'video',
        verified: false,
        built: true,
      }),
    );
    await expect(pullTorchvision('torchvision/raft_large')).rejects.toMatchObject({ code: 'NAME_NOT_FOUND' });
  });

  it('normalises in front of networks that do it themselves in torchvision', async () => {
    for (const network of ['googlenet', 'inception_v3']) {
      const { model } = await findTorchvisionModel(`torchvision/${network}`);
      const { options } = transformFromConfig(model.transform as Record<string, unknown>);
      const { crop } = transformFromConfig(
        `torchvision:${table.networks[network]!.enum}.IMAGENET1K_V1`,
      ).options;
      expect(options).toMatchObject({ mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5], crop });
    }
  });

  it('builds the model of the checkpoint, with its transform beside it, once', async () => {
    let asked = 0;
    const server = await startServer((request, response) => {
      asked++;
      sendFile(request, response, checkpoint);
    });
    const options = { folder: join(scratch, 'pulled'), manifest: list(server.url, digits()) };
    const { path, model, files } = await pullTorchvision('torchvision/squeezenet1_1', options);
    expect(files).toMatchObject([{ name: 'squeezenet1_1.onnx', path, isNew: true }]);
    expect(model.transform).toBe('torchvision:SqueezeNet1_1_Weights.IMAGENET1K_V1');
    expect((await findTransform(path))!.transform.options.crop).toBe(224);
    const built = await openModel(path);
    const expected = await createModel('squeezenet1_1', { seed: 7 });
    for (const [i, parameter] of built.parameters().entries())
      expect(await parameter.read()).toEqual(await expected.parameters()[i]!.read());
    const extractor = await createFeatureExtractor(path, ['features.12.cat']);
    await extractor.close();
    const again = await pullTorchvision('torchvision/squeezenet1_1@DEFAULT', options);
    expect(again.files[0]).toMatchObject({ isNew: false, sha256: files[0]!.sha256 });
    expect(asked).toBe(1);
  });

  it('refuses a file that is not the one of its name, and keeps nothing of it', async () => {
    const server = await startServer((request, response) => sendFile(request, response, checkpoint));
    const folder = join(scratch, 'wrong');
    const manifest = list(server.url, 'b8a52dc0');
    const pulling = pullTorchvision('torchvision/squeezenet1_1', { folder, manifest });
    await expect(pulling).rejects.toMatchObject({
      code: 'CHECKSUM_MISMATCH',
      details: { expected: 'b8a52dc0' },
    });
    const left = readdirSync(join(folder, 'torchvision-squeezenet1_1-IMAGENET1K_V1'));
    expect(left.filter((name) => /pth$|onnx$|sha256$/.test(name))).toEqual([]);
  });

  it('is what "tapir models pull" does', async () => {
    const server = await startServer((request, response) => sendFile(request, response, checkpoint));
    const out = join(scratch, 'mine.onnx');
    const args = [
      'models',
      'pull',
      'torchvision/squeezenet1_1',
      '--manifest',
      list(server.url, digits()),
      '-o',
      out,
    ];
    const run = await runTapir(args, { env: { ...process.env, XDG_CACHE_HOME: join(scratch, 'cache') } });
    expect(run).toMatchObject({ code: 0, stderr: expect.stringContaining('BSD-3-Clause') as string });
    expect(run.stdout).toContain('squeezenet1_1.onnx: downloaded');
    expect(existsSync(out)).toBe(true);
    expect((await findTransform(out))!.transform.options.crop).toBe(224);
  });

  it('names what is near', async () => {
    await expect(findTorchvisionModel('torchvision/resnet5')).rejects.toMatchObject({
      code: 'NAME_NOT_FOUND',
      details: { names: [{ nearest: expect.arrayContaining(['torchvision/resnet50']) as string[] }] },
    });
    await expect(findTorchvisionModel('torchvision/resnet50@V3')).rejects.toMatchObject({
      message: expect.stringContaining('torchvision/resnet50@IMAGENET1K_V2') as string,
    });
    const { model, imageSize } = await findTorchvisionModel('torchvision/vit_b_16@IMAGENET1K_SWAG_E2E_V1');
    expect(model.licence.spdx).toBe('CC-BY-NC-4.0');
    expect(imageSize).toBe(384);
  });
});
