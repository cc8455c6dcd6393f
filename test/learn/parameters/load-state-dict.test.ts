/** State dicts loaded into what exporters make of a network: folded, transposed, merged, external. */
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { createFeatureExtractor, openModel, pruneModel, type OnnxModel } from 'onnx-tapir';
import { loadStateDict, readStateDict, type StateSource } from 'onnx-tapir/parameters';
import { describe, expect, it } from 'vitest';
import { exportedNetwork, seededImages, type ExportedNetwork } from '../../support/exports.js';
import { scratchFolder } from '../../support/fixtures.js';
import { someOf } from '../../support/rounds.js';
import { stateFixture } from '../../support/states.js';

const scratch = scratchFolder();
const networks = ['resnet', 'shared', 'vit', 'convnext'].flatMap((name) => {
  try {
    return [exportedNetwork(name, scratch)];
  } catch {
    return []; // convnext is in the larger set alone.
  }
});
const cases = networks.flatMap((network) =>
  network.exports.map((one) => ({ network, one, name: basename(one.file) })),
);
const stateOf = (network: ExportedNetwork, file: string): ReturnType<typeof readStateDict> =>
  readStateDict(join(network.folder, `${basename(network.folder)}.${file}`));

async function outputOf(model: OnnxModel | string, { input }: ExportedNetwork): Promise<Float32Array> {
  const opened = typeof model === 'string' ? await openModel(model) : model;
  const name = opened.outputs[0]!.name;
  const extractor = await createFeatureExtractor(opened, [name]);
  const data = seededImages(input.seed, input.shape);
  const results = await extractor.run({ dtype: 'float32', dims: input.shape, data });
  await extractor.close();
  return results[name]!.data as Float32Array;
}

/** A state dict whose keys begin with `model.`, without that. */
function dropModel(state: StateSource): StateSource {
  return new Map([...state].map(([key, tensor]) => [key.slice('model.'.length), tensor])) as StateSource;
}

/** The largest difference over the largest expected value. */
function distance(actual: ArrayLike<number>, expected: readonly number[]): number {
  const largest = expected.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return expected.reduce((most, value, i) => Math.max(most, Math.abs(value - actual[i]!)), 0) / largest;
}

it('has networks to test', () => {
  expect(networks.length).toBeGreaterThanOrEqual(3);
});

// Every network, and every way of exporting it.
describe.each(someOf(cases, 3))('$name', ({ network, one }) => {
  const path = join(network.folder, one.file);

  it('lists each parameter with its origin', async () => {
    const model = await openModel(path);
    const listed = new Map(model.namedParameters().map((parameter) => [parameter.name, parameter]));
    for (const { key, status, shape, kind } of one.entries) {
      const parameter = listed.get(key);
      // Which norm was folded is in no TorchScript file, and merged tensors of the model itself look like one that is used again.
      if (!parameter) expect(['folded', 'absent', 'exact', 'derived', 'several'], key).toContain(status);
      else expect([key, parameter.origin.kind, parameter.dims], key).toEqual([key, status, shape]);
      if (parameter && (status !== 'exact' || key.includes('running')))
        expect(parameter.kind, key).toBe(kind);
    }
    const exact = one.entries.filter(({ status }) => status === 'exact');
    const found = exact.filter(({ key }) => listed.has(key));
    expect(found.length).toBeGreaterThanOrEqual(0.7 * exact.length);
  });

  it('reads the values of the state dict', async () => {
    const model = await openModel(path);
    const state = await stateOf(network, 'A.safetensors');
    let read = 0;
    for (const parameter of model.namedParameters()) {
      if (parameter.origin.kind === 'folded' || !state.has(parameter.name)) continue;
      const [actual, expected] = [await parameter.read(), await state.get(parameter.name)!.read()];
      expect([parameter.name, actual]).toEqual([parameter.name, expected]);
      read++;
    }
    expect(read).toBeGreaterThan(0);
  });

  it.runIf(one.load.possible)('gives the other state dict’s outputs', async () => {
    const reference = await stateOf(network, 'A.safetensors');
    for (const file of ['B.safetensors', 'B.checkpoint.pth', 'B.dedup.safetensors']) {
      if (!existsSync(join(network.folder, `${basename(network.folder)}.${file}`))) continue;
      const { model, report } = await loadStateDict(path, await stateOf(network, file), { reference });
      expect(distance(await outputOf(model, network), network.expected.B.value)).toBeLessThan(1e-5);
      expect(report).toMatchObject({ missing: [], unexpected: [] });
      if (file !== 'B.safetensors') continue;
      const saved = join(scratch, `${basename(path)}.${file}.onnx`);
      await model.save(saved, { weights: 'inline' });
      expect(await outputOf(saved, network)).toEqual(await outputOf(model, network));
    }
    // The file itself is as it was.
    expect(distance(await outputOf(path, network), network.expected.A.value)).toBeLessThan(1e-5);
  });

  it.runIf(!one.load.possible)('names what the file cannot take', async () => {
    const [reference, state] = [
      await stateOf(network, 'A.safetensors'),
      await stateOf(network, 'B.safetensors'),
    ];
    for (const options of [{ reference }, { strict: false }])
      await expect(loadStateDict(path, state, options)).rejects.toMatchObject({
        code: 'STATE_MISMATCH',
        details: { derived: one.load.blockers },
      });
  });

  it.runIf(one.load.possible)('stays as it is with its own state dict', async () => {
    const reference = await stateOf(network, 'A.safetensors');
    const model = await openModel(path);
    const { model: same } = await loadStateDict(model, reference, { reference });
    const isFolded = one.entries.some(({ status }) => status === 'folded');
    if (!isFolded) expect(same).toBe(model);
    // Folding again rounds other bits than the exporter did.
    expect(distance(await outputOf(same, network), network.expected.A.value)).toBeLessThan(1e-5);
  });
});

describe('a folded network', () => {
  const [resnet] = networks as [ExportedNetwork];
  const path = join(resnet.folder, 'resnet.ts.onnx');
  // No file says it of this network.
  const epsilon = 1e-5;
  const bad = (name: string): Promise<StateSource> => readStateDict(stateFixture(`bad/${name}`, scratch));

  it('needs no reference where names and order show the norms', async () => {
    const { model, report } = await loadStateDict(path, await stateOf(resnet, 'B.safetensors'), { epsilon });
    expect(distance(await outputOf(model, resnet), resnet.expected.B.value)).toBeLessThan(1e-5);
    expect(report.notes).toEqual([]);
    const other = await loadStateDict(path, await stateOf(resnet, 'B.safetensors'), { epsilon: 1e-2 });
    expect(distance(await outputOf(other.model, resnet), resnet.expected.B.value)).toBeGreaterThan(1e-4);
    const state = await stateOf(resnet, 'B.safetensors');
    await expect(loadStateDict(path, state, { epsilon: 0 })).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    });
    expect(report.absent.every((key) => key.endsWith('num_batches_tracked'))).toBe(true);
    expect(report.entries.find(({ key }) => key === 'layer2.0.downsample.1.running_var')!.origin).toEqual({
      kind: 'folded',
      layer: 'layer2.0.downsample.0',
      norm: 'layer2.0.downsample.1',
      axis: 0,
    });
  });

  it.each([
    ['missing_keys.safetensors', { missing: ['fc.bias', 'bn1.running_mean'] }],
    ['unexpected_keys.safetensors', { unexpected: ['extra.weight', 'fc2.bias'] }],
    ['wrong_shape.safetensors', { misshapen: [{ key: 'fc.bias', expected: '[10]', actual: '[11]' }] }],
    [
      'wrong_type.safetensors',
      {
        misshapen: [{ key: 'fc.bias', expected: 'float32', actual: expect.stringMatching(/^int/) as string }],
      },
    ],
  ])('refuses %s', async (name, details) => {
    await expect(loadStateDict(path, await bad(name))).rejects.toMatchObject({
      code: 'STATE_MISMATCH',
      details,
    });
  });

  it('loads the rest if it may', async () => {
    const { report } = await loadStateDict(path, await bad('missing_keys.safetensors'), {
      strict: false,
      epsilon,
    });
    expect(report).toMatchObject({ missing: ['fc.bias', 'bn1.running_mean'], unexpected: [] });
    expect(report.notes).toContain('conv1 keeps its weights, as bn1.running_mean is missing');
    expect(report.entries.some(({ key }) => key === 'conv1.weight')).toBe(false);
    const more = await loadStateDict(path, await bad('unexpected_keys.safetensors'), {
      strict: false,
      epsilon,
    });
    expect(more.report).toMatchObject({ missing: [], unexpected: ['extra.weight', 'fc2.bias'] });
    await expect(
      loadStateDict(path, await bad('wrong_shape.safetensors'), { strict: false }),
    ).rejects.toMatchObject({
      code: 'STATE_MISMATCH',
    });
  });

  it('never loads nothing', async () => {
    const other = new Map([['other.weight', { dims: [1], data: Float32Array.of(1) }]]);
    for (const strict of [true, false])
      await expect(loadStateDict(path, other, { strict })).rejects.toMatchObject({ code: 'STATE_MISMATCH' });
  });

  it('refuses a reference that is not of its present weights', async () => {
    const state = await stateOf(resnet, 'B.safetensors');
    for (const file of ['resnet.ts.onnx', 'resnet.ts.preserve.onnx'])
      await expect(
        loadStateDict(join(resnet.folder, file), state, { reference: state }),
      ).rejects.toMatchObject({
        code: 'STATE_AMBIGUOUS',
      });
  });

  it('takes keys with a prefix, and says so', async () => {
    const { report } = await loadStateDict(path, await bad('module_prefix.safetensors'), { epsilon });
    expect(report.notes[0]).toBe('"module." was removed from 62 keys');
    const lightning = await readStateDict(stateFixture('formats/model_prefix.safetensors', scratch));
    await expect(loadStateDict(path, lightning)).rejects.toMatchObject({ code: 'STATE_MISMATCH' });
    const { model } = await loadStateDict(path, lightning, { prefix: 'model.', epsilon });
    expect(distance(await outputOf(model, resnet), resnet.expected.B.value)).toBeLessThan(1e-5);
  });

  it('takes a reference with the prefix of the state dict, with its own, or without', async () => {
    const state = await readStateDict(stateFixture('formats/model_prefix.safetensors', scratch));
    const reference = await stateOf(resnet, 'A.safetensors');
    for (const start of ['', 'model.', 'module.']) {
      const renamed = new Map([...reference].map(([key, tensor]) => [start + key, tensor]));
      const { model } = await loadStateDict(path, state, { prefix: 'model.', reference: renamed });
      expect(distance(await outputOf(model, resnet), resnet.expected.B.value), start).toBeLessThan(1e-5);
    }
    // It is read: another one is refused.
    await expect(
      loadStateDict(path, state, { prefix: 'model.', reference: dropModel(state) }),
    ).rejects.toMatchObject({ code: 'STATE_AMBIGUOUS' });
  });

  it('changes nothing but the tensors', async () => {
    const { model } = await loadStateDict(path, await stateOf(resnet, 'B.safetensors'), { epsilon });
    const saved = join(scratch, 'tuned.onnx');
    await model.save(saved);
    const [before, after] = [readFileSync(path), readFileSync(saved)];
    expect(after.length).toBe(before.length);
    const source = await openModel(path);
    expect((await openModel(saved)).nodes).toEqual(source.nodes);
    // The payloads are where they were: of the bytes that differ, each lies in a tensor.
    const floats = source
      .namedParameters()
      .reduce(
        (sum, { name, dims }) => sum + (name.includes('running') ? 0 : dims.reduce((a, b) => a * b, 1)),
        0,
      );
    const differing = before.filter((byte, i) => byte !== after[i]).length;
    expect(differing).toBeGreaterThan(floats);
    expect(differing).toBeLessThan(4 * 1.2 * floats);
    await expect(model.save(path, { overwrite: true })).rejects.toMatchObject({ code: 'OUTPUT_UNWRITABLE' });
    await expect(model.save(saved)).rejects.toMatchObject({ code: 'OUTPUT_EXISTS' });
  });

  it('gives the same parameters to all that was cut from it', async () => {
    const model = await openModel(path);
    const all = model.namedParameters();
    expect(model.namedParameters()).toBe(all);
    const pruned = await pruneModel(model, ['layer1']);
    const kept = pruned.namedParameters();
    expect(kept.length).toBeGreaterThan(4);
    expect(kept.length).toBeLessThan(all.length);
    for (const parameter of kept) expect(all).toContain(parameter);
    const extractor = await createFeatureExtractor(model, ['layer1']);
    expect(extractor.model.parameters()).toEqual(pruned.parameters());
    extractor.model.parameters().forEach((parameter, i) => expect(parameter).toBe(pruned.parameters()[i]));
    await extractor.close();
  });

  it('reads float16, bfloat16 and float64', async () => {
    for (const [name, tolerance] of [
      ['formats/half.safetensors', 5e-3],
      ['formats/bfloat16.safetensors', 5e-2],
      ['formats/double.pth', 1e-5],
    ] as const) {
      const { model } = await loadStateDict(path, await readStateDict(stateFixture(name, scratch)), {
        epsilon,
      });
      expect(distance(await outputOf(model, resnet), resnet.expected.B.value), name).toBeLessThan(tolerance);
    }
  });
});
