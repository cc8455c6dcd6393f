/** `tapir models split`: stages that chain to the whole model, by the index that is written beside them. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createFeatureExtractor, openModel, type Tensor } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { isTemporary } from '../../../../src/base/atomic-file.js';
import { seededImages } from '../../../support/exports.js';
import { scratchFolder, tinyResNet } from '../../../support/fixtures.js';
import { modelBytes } from '../../../support/graphs.js';
import { runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
const model = join(scratch, 'model.onnx');
writeFileSync(model, tinyResNet());

interface Index {
  readonly inputs: readonly { readonly name: string }[];
  readonly outputs: readonly { readonly name: string }[];
  readonly stages: readonly {
    readonly file: string;
    readonly macs: number;
    readonly inputs: readonly { readonly name: string }[];
  }[];
  readonly crossing: readonly { readonly tensors: readonly string[] }[];
  readonly balance: number;
}

const EXACT = { session: { graphOptimizationLevel: 'disabled' } } as const;

describe('tapir models split', () => {
  it('writes stages and an index that chains them', async () => {
    const out = join(scratch, 'stages');
    const ended = await runTapir(['models', 'split', model, '--stages', '3', '-o', out]);
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(ended.stdout).toMatch(/balance 0\.\d{3}: at most [12]\.\d\d times/);
    expect(readdirSync(out).toSorted()).toEqual([
      'stage-0.onnx',
      'stage-1.onnx',
      'stage-2.onnx',
      'stages.json',
    ]);
    const index = JSON.parse(readFileSync(join(out, 'stages.json'), 'utf8')) as Index;
    const dims = [2, 3, 64, 64];
    const feed: Tensor = { dtype: 'float32', dims, data: seededImages('split', dims) };
    const known: Record<string, Tensor> = { [index.inputs[0]!.name]: feed };
    for (const stage of index.stages) {
      const path = join(out, stage.file);
      const outputs = (await openModel(path)).outputs;
      const extractor = await createFeatureExtractor(
        path,
        outputs.map(({ name }) => `tensor:${name}`),
        EXACT,
      );
      const run = await extractor.run(
        Object.fromEntries(stage.inputs.map(({ name }) => [name, known[name]!])),
      );
      Object.assign(known, Object.fromEntries(outputs.map(({ name }) => [name, run[`tensor:${name}`]!])));
      await extractor.close();
    }
    const [output] = index.outputs;
    await using whole = await createFeatureExtractor(model, [output!.name], EXACT);
    expect(known[output!.name]!.data).toEqual((await whole.run(feed))[output!.name]!.data);
  });

  it('cuts after names, prints the index, and replaces nothing unasked', async () => {
    const out = join(scratch, 'named');
    const args = ['models', 'split', model, '--at', 'layer1', '--at', 'layer3', '-o', out, '--json'];
    const ended = await runTapir(args);
    expect(ended.code).toBe(0);
    expect((JSON.parse(ended.stdout) as Index).crossing.map(({ tensors }) => tensors.length)).toEqual([1, 1]);
    const again = await runTapir(args);
    expect(again).toMatchObject({ code: 4, stderr: expect.stringContaining('OUTPUT_EXISTS') });
    expect((await runTapir([...args, '--overwrite'])).code).toBe(0);
  });

  const contentOf = (folder: string): Record<string, string> =>
    Object.fromEntries(
      readdirSync(folder)
        .filter((name) => !isTemporary(name))
        .map((name) => [name, readFileSync(join(folder, name)).toString('base64')]),
    );

  it('repacks the external weights of each stage into a file beside it', async () => {
    const folder = join(scratch, 'external');
    const weight = (offset: number) =>
      ({ dims: [4], external: { location: 'w.bin', offset: String(offset), length: '16' } }) as const;
    const bytes = modelBytes({
      inputs: [{ name: 'x', dims: ['n', 4] }],
      outputs: [{ name: 'y', dims: ['n', 4] }],
      initializers: { a: weight(0), b: weight(16) },
      nodes: [
        { op: 'Add', name: 'first', inputs: ['x', 'a'], outputs: ['h'] },
        { op: 'Mul', inputs: ['h', 'b'], outputs: ['y'] },
      ],
    });
    const path = join(scratch, 'external.onnx');
    writeFileSync(path, bytes);
    writeFileSync(join(scratch, 'w.bin'), Buffer.from(Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8).buffer));
    await runTapir(['models', 'split', model, '--stages', '2', '-o', folder]);
    const former = contentOf(folder);
    const refused = await runTapir(['models', 'split', path, '--at', 'first', '-o', folder, '--overwrite']);
    expect(refused).toMatchObject({ code: 4, stderr: expect.stringContaining('--set weights=') });
    expect(contentOf(folder)).toEqual(former);
    rmSync(folder, { recursive: true });
    const ended = await runTapir([
      'models',
      'split',
      path,
      '--at',
      'first',
      '-o',
      folder,
      '--set',
      'weights=repack',
    ]);
    expect(ended.code).toBe(0);
    for (const [i, values] of [
      [1, 2, 3, 4],
      [5, 6, 7, 8],
    ].entries())
      expect(
        [
          ...new Float32Array(new Uint8Array(readFileSync(join(folder, `stage-${i}.onnx.data`))).buffer),
        ].slice(0, 4),
      ).toEqual(values);
  });

  it.each([
    [['--stages', '2', '--at', 'layer1'], 2],
    [[], 2],
    [['--stages', '99'], 2],
    [['--at', 'layr1'], 2],
  ])('refuses %j', async (args, code) => {
    const ended = await runTapir(['models', 'split', model, ...args, '-o', join(scratch, 'none')]);
    expect(ended.code).toBe(code);
    expect(readdirSync(scratch)).not.toContain('none');
  });

  const splitTo = (out: string, ...more: readonly string[]): string[] => [
    'models',
    'split',
    model,
    '-o',
    out,
    ...more,
  ];

  it('goes on after a kill at any stage, and holds no index meanwhile', async () => {
    const [whole, out] = [join(scratch, 'whole'), join(scratch, 'killed')];
    await runTapir(splitTo(whole, '--stages', '3'));
    for (const name of ['stage-0.onnx', 'stage-2.onnx']) {
      rmSync(out, { recursive: true, force: true });
      const signal = { name: 'SIGKILL', when: () => existsSync(join(out, name)) } as const;
      const killed = await runTapir(splitTo(out, '--stages', '3'), { signal });
      if (killed.signal !== null && existsSync(join(out, 'stages.json')))
        expect(contentOf(out)).toMatchObject(contentOf(whole));
      // The state of a kill before the index, if this one came later.
      else if (killed.signal === null) {
        rmSync(join(out, 'stages.json'));
        writeFileSync(join(out, '.tapir-split.json'), JSON.stringify({ files: [{ file: name }] }));
        rmSync(join(out, 'stage-1.onnx'));
        for (const other of ['stage-0.onnx', 'stage-2.onnx']) if (other !== name) rmSync(join(out, other));
      }
      const again = await runTapir(splitTo(out, '--stages', '3', '--overwrite'));
      expect(again).toMatchObject({ code: 0, stderr: '' });
      expect(contentOf(out)).toEqual(contentOf(whole));
    }
  });

  it('of an unfinished split, replaces its own stages unasked, and no others', async () => {
    const out = join(scratch, 'unfinished');
    mkdirSync(out);
    writeFileSync(join(out, 'stage-0.onnx'), 'torn');
    const args = splitTo(out, '--stages', '2');
    expect((await runTapir(args)).stderr).toContain('[OUTPUT_EXISTS]');
    expect(readFileSync(join(out, 'stage-0.onnx'), 'utf8')).toBe('torn');
    const files = ['stage-0.onnx', 'stage-4.onnx', '../outside.onnx'].map((file) => ({ file }));
    writeFileSync(join(out, '.tapir-split.json'), JSON.stringify({ files }));
    for (const name of ['stage-4.onnx', 'stage-5.onnx', '../outside.onnx'])
      writeFileSync(join(out, name), 'mine');
    expect(await runTapir(args)).toMatchObject({ code: 0, stderr: '' });
    expect(readdirSync(out).toSorted()).toEqual([
      'stage-0.onnx',
      'stage-1.onnx',
      'stage-5.onnx',
      'stages.json',
    ]);
    expect(existsSync(join(scratch, 'outside.onnx'))).toBe(true);
  });

  it('leaves no stage of a longer split behind, and never removes the model that it reads', async () => {
    const out = join(scratch, 'shorter');
    await runTapir(splitTo(out, '--stages', '3'));
    const ended = await runTapir(splitTo(out, '--stages', '2', '--overwrite'));
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    expect(readdirSync(out).toSorted()).toEqual(['stage-0.onnx', 'stage-1.onnx', 'stages.json']);
    const before = contentOf(out);
    const own = ['models', 'split', join(out, 'stage-1.onnx'), '-o', out, '--stages', '2', '--overwrite'];
    expect((await runTapir(own)).stderr).toContain('it is the model that is read');
    expect(contentOf(out)).toEqual(before);
  });
});
