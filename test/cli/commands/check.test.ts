/** `tapir check`: what it finds, its exit codes, and what a reference may be. */
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, embedImages, loadImage, type Manifest } from 'onnx-tapir';
import { beforeAll, describe, expect, it } from 'vitest';
import { buildResNet } from '../../../models/resnet.js';
import type { ModelCheck } from '../../../src/cli/measure/check-model.js';
import { checkEngines } from '../../../src/cli/measure/check-photos.js';
import { readPhotoVectors } from '../../../src/cli/measure/photo-vectors.js';
import type { EngineCandidate } from '../../../src/datasets/records/engine-choice.js';
import { encodeNpyHeader } from '../../../src/datasets/formats/npy.js';
import { makeZip } from '../../support/archives.js';
import { fixturePath, projectPath, scratchFolder } from '../../support/fixtures.js';
import { someOf } from '../../support/rounds.js';
import { AUTO_TRANSFORM, runTapir, type Ended } from '../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
writeFileSync(model, buildResNet(0, { blocks: [1, 1, 1, 1], width: 4, size: 224, classes: 10 }).bytes);
const photos = projectPath('examples/photos');
/** Two of them: each form of the model is timed on all photos, up to 16. */
const few = join(scratch, 'few');
const checkOn = (folder: string, ...flags: string[]): Promise<Ended> =>
  runTapir(['check', model, folder, '--return', 'avgpool=embedding', ...flags]);
const check = (...flags: string[]): Promise<Ended> => checkOn(few, ...flags);
/** A dataset of all photos. */
const vectors = join(scratch, 'vectors');

type Arrays = Readonly<Record<string, { readonly dims: readonly number[]; readonly data: Float32Array }>>;

/** Writes arrays as numpy.savez does. */
function saveNpz(name: string, arrays: Arrays): string {
  const files = Object.entries(arrays).map(([key, { dims, data }]) => ({
    name: `${key}.npy`,
    bytes: Buffer.concat([encodeNpyHeader('float32', dims), new Uint8Array(data.buffer)]),
  }));
  writeFileSync(join(scratch, name), makeZip(files));
  return join(scratch, name);
}

/** The vector and the pixels of a photo, as the library gives them. */
let right: Arrays;
let name: string;
beforeAll(async () => {
  const extractor = await createFeatureExtractor(model, { avgpool: 'embedding' });
  for (const one of ['city/city-0.jpg', 'sea/sea-0.jpg']) cpSync(join(photos, one), join(few, one));
  for await (const { path, features } of embedImages(extractor, few)) {
    const { data, dims } = features!.embedding;
    name = path!;
    right = { [name]: { dims, data: data as Float32Array } };
    break;
  }
  await extractor.close();
  const { data, dims } = (await loadImage(join(few, name), 'ImageNet1K_V1')).toTensor();
  right = { ...right, [`${name}:pixels`]: { dims: dims.slice(1), data: data as Float32Array } };
  const from = ['--model', model, '--return', 'avgpool=embedding', '--out', vectors];
  expect(await runTapir(['embed', photos, ...from])).toMatchObject({ code: 0 });
});

it('an engine that computes something else in float32 is wrong', () => {
  const way = (engine: string, precision: string, cosine: number | null): EngineCandidate =>
    ({ engine, precision, cosine, imagesPerSecond: 1, reason: null }) as EngineCandidate;
  const [exact, fast] = [way('onnxruntime', 'float32', 1), way('openvino', 'bfloat16', 0.9)];
  expect(checkEngines([exact, fast]).verdict).toBe('unproven');
  expect(checkEngines([exact, fast, way('openvino', 'float32', null)]).verdict).toBe('unproven');
  expect(checkEngines([exact, fast, way('openvino', 'float32', 0.999999)]).verdict).toBe('yes');
  expect(checkEngines([exact, way('openvino', 'float32', 0.99)]).verdict).toBe('no');
  expect(checkEngines([exact, way('openvino', 'float32', Number.NaN)]).verdict).toBe('no');
});

describe('tapir check', () => {
  it('finds that all is right, in text and as a page', async () => {
    const page = join(scratch, 'check.html');
    const ended = await checkOn(photos, '--against', saveNpz('right.npz', right), '--out', page);
    expect(ended).toMatchObject({ code: 0, stderr: AUTO_TRANSFORM });
    expect(ended.stdout).toMatch(
      /^model\.onnx, .*onnx-tapir\n\n✓ opens +yes +input \[batch, 3, 224, 224\] → /,
    );
    for (const what of ['names', 'cut', 'pixels', 'split', 'reference'])
      expect(ended.stdout, what).toMatch(new RegExp(`^✓ ${what} +yes `, 'm'));
    expect(ended.stdout).toMatch(/^onnxruntime +cpu +float32 +[\d.]+ +1 +100\.0 % +– +[\d.]+ \w+$/m);
    expect(readFileSync(page, 'utf8')).toMatch(/tapir check<[\s\S]*the same bits/);
  });

  it('takes a dataset of tapir embed as the reference', async () => {
    const { code, stdout } = await checkOn(photos, '--against', vectors, '--json');
    const { findings, engines } = JSON.parse(stdout) as ModelCheck;
    expect(findings.reference.says).toMatch(/^embedding: cosine ≥ [\d.]+ over 24 photos/);
    expect(findings.reference.verdict).toBe('yes');
    expect(findings.pixels.verdict).toBe('unproven');
    expect(engines[0]).toMatchObject({
      engine: 'onnxruntime',
      precision: 'float32',
      cosine: 1,
      reason: null,
    });
    expect(code).toBe(0);
  });

  it('writes what is the fastest into the model’s own file, which embed then takes', async () => {
    const own = `${model}.tapir.json`;
    writeFileSync(own, JSON.stringify({ labels: ['kept'] }));
    const wrong = await check('--save', '--against', saveNpz('stranger.npz', { 'x.jpg': right[name]! }));
    expect(wrong.stdout).toContain('\nnot saved: the check found something wrong\n');
    expect(JSON.parse(readFileSync(own, 'utf8'))).toEqual({ labels: ['kept'] });
    const saved = await check('--save', '--transform', 'ImageNet1K_V2');
    expect(saved.stdout).toMatch(/\nsaved: .*model\.onnx\.tapir\.json: engine \w+, \w+ on cpu\n/);
    const settings = JSON.parse(readFileSync(own, 'utf8')) as Record<string, unknown>;
    expect(settings).toMatchObject({ labels: ['kept'], device: 'cpu', transform: { resize: 232 } });
    const out = join(scratch, 'saved');
    const ended = await runTapir([
      'embed',
      few,
      '--model',
      model,
      '--return',
      'avgpool=embedding',
      '--out',
      out,
    ]);
    rmSync(own);
    expect(ended.stderr).toContain(
      `engine: ${String(settings['engine'])}, ${String(settings['precision'])} (model.onnx.tapir.json)\n`,
    );
    const { run } = JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8')) as Manifest;
    expect(run).toMatchObject({ engine: settings['engine'], fromModelFile: ['engine', 'precision'] });
    expect(ended.code).toBe(0);
  });

  it('names the output that a reference holds, and the flag', async () => {
    const ended = await runTapir(['check', model, few, '--against', vectors, '--json']);
    const { findings } = JSON.parse(ended.stdout) as ModelCheck;
    expect(findings.reference).toEqual({
      verdict: 'no',
      says: expect.stringMatching(
        /^the reference holds "embedding" \(\d+ numbers\), and this run gives "\w+" \[.*\]; name the node .*: --return NODE=embedding$/,
      ) as string,
    });
  });

  const wrong = [
    [
      'a vector has moved',
      'reference',
      () => ({ [name]: moved(name) }),
      /cosine ≥ .*at least 0\.9999 is asked/,
    ],
    ['a vector is longer', 'reference', () => ({ [name]: scaled(name, 1.1) }), /0\.9091 times as long/],
    ['pixels differ', 'pixels', () => ({ ...right, [`${name}:pixels`]: moved(`${name}:pixels`) }), /off by/],
    ['nothing is compared', 'reference', () => ({}), /no photo/],
    [
      'a photo is missing',
      'reference',
      () => ({ [name]: right[name]!, 'gone.jpg': right[name]! }),
      /^1 photo of the reference is not here: gone\.jpg; \w+: cosine ≥ 1/,
    ],
    [
      'lengths differ',
      'reference',
      () => ({ [name]: { dims: [2], data: new Float32Array(2) } }),
      /128 numbers here, 2 in the reference/,
    ],
  ] as const;

  // Each opens the model in all its forms.
  it.concurrent.each(someOf(wrong, 2))('ends with 1 if %s', async (title, what, arrays, says) => {
    const { code, stdout } = await check('--against', saveNpz(`${title}.npz`, arrays()), '--json');
    const { findings } = JSON.parse(stdout) as ModelCheck;
    expect(findings[what]).toMatchObject({ verdict: 'no', says: expect.stringMatching(says) as string });
    expect(code).toBe(1);
  });

  it('says why a model does not open, and refuses what is no reference', async () => {
    expect(await check('--against', model)).toMatchObject({ code: 2 });
    expect(await check('--against', join(scratch, 'none.npz'))).toMatchObject({ code: 2 });
    const bad = await runTapir(['check', fixturePath('graphs/generated/none.onnx'), photos]);
    expect(bad).toMatchObject({ code: 3 });
    const page = join(scratch, 'refused.html');
    expect(
      await check('--transform', 'torchvision:EfficientNet_B1_Weights.IMAGENET1K_V1', '--out', page),
    ).toMatchObject({ code: 1 });
    expect(readFileSync(page, 'utf8')).toContain('Refused: pixels, split, reference, agree.');
  });
});

function moved(key: string): Arrays[string] {
  const { dims, data } = right[key]!;
  return { dims, data: data.map((value, i) => (i % 2 === 0 ? value : value + 0.1)) };
}

function scaled(key: string, factor: number): Arrays[string] {
  const { dims, data } = right[key]!;
  return { dims, data: data.map((value) => factor * value) };
}

describe('readPhotoVectors', () => {
  it('reads what numpy.savez wrote', async () => {
    const read = await readPhotoVectors(fixturePath('vectors/reference.npz'));
    expect([...read]).toEqual([
      ['a/cat.jpg', { dims: [4], data: new Float32Array([0, 0.125, 0.25, 0.375]) }],
      ['dog.png:pooled', { dims: [1, 2], data: new Float32Array([1.5, -2]) }],
    ]);
  });
});
