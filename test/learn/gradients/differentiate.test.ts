/** Gradients of whole models: by name, for every exporter, saved and opened again. */
import { join } from 'node:path';
import { createFeatureExtractor, openModel, verifyModel, type Tensor } from 'onnx-tapir';
import { differentiate } from 'onnx-tapir/gradients';
import { describe, expect, it } from 'vitest';
import { scratchFolder, sharedNote, tinyResNet } from '../../support/fixtures.js';
import { modelBytes } from '../../support/graphs.js';
import {
  crossEntropyGradient,
  decode,
  expectClose,
  hasTraining,
  readTraining,
  summaryDifference,
  trainingPath,
  type Stored,
  type StoredTensor,
  type Summary,
} from '../../support/training.js';

interface ModelFile {
  readonly file: string;
  readonly exporter: string;
  readonly input: string;
  readonly output: string;
  readonly batchNorm: 'frozen' | 'train';
  readonly initializers: readonly {
    readonly name: string;
    readonly torch?: string;
    readonly gradient?: Summary;
  }[];
  readonly parametersWithoutInitializer?: readonly string[];
}
interface ModelCase {
  readonly input: StoredTensor;
  readonly labels: StoredTensor;
  readonly parameters: readonly { readonly name: string }[];
  readonly files: readonly ModelFile[];
  readonly frozen: {
    readonly output: StoredTensor;
    readonly losses: Readonly<Record<string, { readonly inputGradient: Summary; readonly drift: Drifts }>>;
    readonly full: { readonly gradients: Stored };
  };
  readonly train?: {
    readonly output: StoredTensor;
    readonly inputGradient: StoredTensor;
    readonly gradientScale: number;
    readonly mathematicallyZero: readonly string[];
    readonly drift: Drifts;
  };
}
type Drifts = Readonly<Record<string, number | null>>;

const ids = hasTraining
  ? readTraining<readonly { id: string }[]>('models/index.json').map(({ id }) => id)
  : [];
const scratch = scratchFolder();

/** Runs the gradients of a file under cross entropy. */
async function gradientsOf(
  { file, input, output, batchNorm }: ModelFile,
  { input: fed, labels, frozen, train }: ModelCase,
  withRespectTo: readonly string[],
): Promise<Readonly<Record<string, Tensor>>> {
  const gradients = await differentiate(trainingPath(`models/${file}`), { of: [output], withRespectTo });
  const names = withRespectTo.map((name) => `gradient/${name}`);
  const extractor = await createFeatureExtractor(await gradients.bytes(), names);
  const logits = decode(batchNorm === 'train' ? train!.output : frozen.output);
  const seed = crossEntropyGradient(logits, decode(labels));
  try {
    return await extractor.run({ [input]: decode(fed), [`gradient/${output}`]: seed });
  } finally {
    await extractor.close();
  }
}

describe.runIf(hasTraining).each(ids)(`%s${sharedNote}`, (id) => {
  const model = readTraining<ModelCase>(`models/${id}.json`);

  it.each(model.files.map((file): [string, ModelFile] => [file.exporter, file]))('%s', async (_, file) => {
    const differentiable = file.initializers.filter(({ gradient }) => gradient !== undefined);
    const asked = [file.input, ...differentiable.map(({ name }) => `tensor:${name}`)];
    const results = await gradientsOf(file, model, asked);
    const isTrained = file.batchNorm === 'train';
    const { inputGradient, drift } = model.frozen.losses['ce-mean']!;
    const drifts = isTrained ? model.train!.drift : drift;
    for (const { name, torch = name, gradient } of differentiable) {
      const isZero = isTrained && model.train!.mathematicallyZero.includes(torch);
      const allowed = isZero
        ? 1e-5 * model.train!.gradientScale
        : Math.max(1e-5, 10 * (drifts[torch] ?? 0)) * gradient!.maxAbs + 1e-7;
      expect(summaryDifference(results[`gradient/tensor:${name}`]!, gradient!), name).toBeLessThanOrEqual(
        allowed,
      );
    }
    const ofInput = results[`gradient/${file.input}`]!;
    if (isTrained) expectClose('input', ofInput, model.train!.inputGradient, 2e-4);
    else
      expect(summaryDifference(ofInput, inputGradient)).toBeLessThanOrEqual(
        1e-5 * inputGradient.maxAbs + 1e-7,
      );
  });

  it('parameters by their names in torch, in torch’s layout', async () => {
    const file = model.files.find(({ exporter }) => exporter === 'ts-unfolded')!;
    const kept = new Set(
      (await openModel(trainingPath(`models/${file.file}`))).parameters().map(({ name }) => name),
    );
    const names = model.parameters.map(({ name }) => name).filter((name) => kept.has(name));
    expect(names.length).toBeGreaterThan(0.5 * model.parameters.length);
    const results = await gradientsOf(file, model, names);
    const { drift } = model.frozen.losses['ce-mean']!;
    for (const name of names) {
      const relative = Math.max(1e-5, 10 * (drift[name] ?? 0));
      expectClose(name, results[`gradient/${name}`]!, model.frozen.full.gradients[name]!, relative, 1e-7);
    }
  });
});

describe.runIf(hasTraining)(`folded parameters${sharedNote}`, () => {
  it.each(['ts-folded', 'dynamo'])('%s: the error says where they went', async (exporter) => {
    const ask = (name: string) =>
      differentiate(trainingPath(`models/resnet-basic.${exporter}.onnx`), {
        of: ['output'],
        withRespectTo: [name],
      });
    await expect(ask('conv1.weight')).rejects.toMatchObject({
      code: 'PARAMETER_FOLDED',
      message: expect.stringMatching(/folded a norm into "conv1".*ask for "tensor:/),
    });
    // TorchScript leaves no trace of the norm's name.
    await expect(ask('bn1.weight')).rejects.toMatchObject({
      message: expect.stringMatching(/was folded|folded a norm/),
    });
  });
});

describe('differentiate', () => {
  const request = { of: ['fc'], withRespectTo: ['layer4', 'fc.weight'] } as const;

  it('names inputs and outputs, and tells in its plan what it adds', async () => {
    const { plan } = await differentiate(tinyResNet(), { ...request, returnNodes: { layer4: 'map' } });
    expect(plan.added.inputs).toEqual(['gradient/fc']);
    expect(plan.resolved.map(({ key, computed }) => [key, computed])).toEqual([
      ['map', []],
      ['gradient/layer4', ['gradient']],
      ['gradient/fc.weight', ['gradient']],
    ]);
    // The backward pass to layer4 starts after it.
    expect(plan.dropped.initializers).toContain('fc.bias');
  });

  it('is a plain file, which opens again', async () => {
    const path = join(scratch, 'gradients.onnx');
    await (await differentiate(tinyResNet(), request)).save(path);
    const model = await openModel(path);
    expect(model.inputs.map(({ name }) => name).toSorted()).toEqual(['gradient/fc', 'input']);
    expect(model.outputs).toEqual([
      { name: 'gradient/layer4', dtype: 'float32', dims: ['batch', 128, 2, 2] },
      { name: 'gradient/fc.weight', dtype: 'float32', dims: [10, 128] },
    ]);
    const extractor = await createFeatureExtractor(path, ['gradient/fc.weight']);
    const input = {
      dtype: 'float32',
      dims: [2, 3, 64, 64],
      data: new Float32Array(2 * 3 * 64 * 64),
    } as const;
    const seed = { dtype: 'float32', dims: [2, 10], data: new Float32Array(20).fill(1) } as const;
    const results = await extractor.run({ input, 'gradient/fc': seed });
    expect(results['gradient/fc.weight'].dims).toEqual([10, 128]);
    await extractor.close();
  });

  it('refuses names that would clash', async () => {
    for (const options of [
      { of: ['fc'], withRespectTo: ['fc'] },
      { of: ['fc'], withRespectTo: ['input'], returnNodes: { layer4: 'gradient/input' } },
    ])
      await expect(differentiate(tinyResNet(), options)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
    await expect(differentiate(tinyResNet(), { of: [], withRespectTo: ['input'] })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
  });

  it('takes axes that the graph computes from constants, and ranks that only a run tells', async () => {
    const shape = { dims: [2], values: [0, -1], elemType: 'int64' } as const;
    const nodes = [
      { op: 'Shape', inputs: ['x'], outputs: ['s'] },
      // A length that the runtime cannot infer: the reshaped tensor has an unknown rank.
      { op: 'Gather', inputs: ['s', 'all'], outputs: ['same'] },
      { op: 'Reshape', inputs: ['x', 'same'], outputs: ['r'] },
      { op: 'Add', inputs: ['one', 'one'], outputs: ['two'] },
      { op: 'Sub', inputs: ['two', 'one'], outputs: ['axes'] },
      { op: 'ReduceSum', inputs: ['r', 'axes'], outputs: ['y'], ints: { keepdims: 0 } },
    ];
    const initializers = {
      all: { dims: [2], values: [0, 1], elemType: 'int64' },
      one: { dims: [1], values: [1], elemType: 'int64' },
      shape,
    } as const;
    const bytes = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 'm'] }],
      outputs: [{ name: 'y', dims: ['n'] }],
      nodes,
      initializers,
    });
    const gradients = await differentiate(bytes, { of: ['y'], withRespectTo: ['x'] });
    const extractor = await createFeatureExtractor(await gradients.bytes(), ['gradient/x']);
    const x = { dtype: 'float32', dims: [2, 3], data: new Float32Array(6) } as const;
    const seed = { dtype: 'float32', dims: [2], data: Float32Array.of(1, 2) } as const;
    const results = await extractor.run({ x, 'gradient/y': seed });
    expect(results['gradient/x']).toMatchObject({ dims: [2, 3], data: Float32Array.of(1, 1, 1, 2, 2, 2) });
    await extractor.close();
  });

  it('is nothing that verifyModel compares', async () => {
    const gradients = await differentiate(tinyResNet(), request);
    await expect(verifyModel(gradients)).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});

it('gives an extractor the gradients by their names', async () => {
  const gradients = await differentiate(tinyResNet(), { of: ['fc'], withRespectTo: ['layer1', 'layer4'] });
  await using extractor = await createFeatureExtractor(gradients, { 'gradient/layer4': 'slope' });
  expect(extractor.outputs.map(({ name }) => name)).toEqual(['slope']);
});
