/** Names in files of other exporters, against what was found out by value (test/fixtures/make/skeletons.py). */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { isTapirError } from '../../../../src/base/errors.js';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import type { Graph } from '../../../../src/onnx/graph/graph.js';
import { marksOf } from '../../../../src/onnx/graph/names/marks.js';
import { listNames } from '../../../../src/onnx/graph/names/name-list.js';
import { resolveNames } from '../../../../src/onnx/graph/names/resolve-names.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { fixturePath } from '../../../support/fixtures.js';
import { modelBytes, type NodeSpec } from '../../../support/graphs.js';

interface Truth {
  readonly names: Readonly<Record<string, readonly string[]>>;
  readonly absent: readonly string[];
}

const read = (name: string, folder = 'exporters'): { graph: Graph; truth: Truth } => ({
  graph: buildGraph(scanModel(memorySource(readFileSync(fixturePath(`${folder}/${name}.onnx`))))),
  truth: JSON.parse(readFileSync(fixturePath(`${folder}/${name}.json`), 'utf8')) as Truth,
});

/** The tensor of a name, or the code of the refusal. */
function tensorOf(graph: Graph, name: string): { tensor?: string; code?: string } {
  try {
    return { tensor: resolveNames(graph, [name])[0]!.value.name };
  } catch (error) {
    if (isTapirError(error)) return { code: error.code };
    throw error;
  }
}

/** How many names at least must resolve: the rest has no node of its own (Dropout, DropPath), or is folded away. */
const LEAST: Readonly<Record<string, number>> = {
  'torch-old.resnet18.t112': 1,
  'torch-old.resnet18.t14': 1,
  'torch-old.vgg11_bn.t112': 1,
  'torch-old.squeezenet1_1.t17': 1,
  'torch-old.densenet121.t110': 1,
  'keras.small-nested.tf213.savedmodel': 0.7,
  'keras.small-nested.tf216.export': 0.65,
  'keras.resnet50.tf115.savedmodel': 0.98,
  'keras.vgg16.tf216.from_keras': 1,
  'hf4.vit.eager.ts': 0.85,
  'hf5.vit.eager.ts': 0.85,
  'hf5.vit.eager.dynamo': 0.85,
  'hf5.clip-vision-proj.eager.ts': 0.85,
  'optimum.vit.eager.O2': 0.65,
};

describe('names of other exporters', () => {
  it.each(Object.entries(LEAST))('%s: right or refused, and mostly right', (file, least) => {
    const { graph, truth } = read(file);
    const results = Object.entries(truth.names).map(([name, tensors]) => {
      const { tensor } = tensorOf(graph, name);
      return { name, tensors, tensor };
    });
    const wrong = results.filter(({ tensor, tensors }) => tensor !== undefined && !tensors.includes(tensor));
    expect(wrong).toEqual([]);
    const right = results.filter(({ tensor }) => tensor !== undefined);
    expect(right.length / results.length).toBeGreaterThanOrEqual(least);
  });

  it.each(Object.keys(LEAST))('%s: values that are not in the file are refused', (file) => {
    const { graph, truth } = read(file);
    expect(truth.absent.filter((name) => tensorOf(graph, name).tensor !== undefined)).toEqual([]);
  });

  it.each(readdirSync(fixturePath('exporters')).filter((file) => file.endsWith('.onnx')))(
    '%s: listed names resolve, each to another value',
    (file) => {
      const { graph } = read(file.slice(0, -'.onnx'.length));
      const names = listNames(graph);
      expect(names.length).toBeGreaterThan(10);
      expect(new Set(resolveNames(graph, names).map(({ value }) => value)).size).toBe(names.length);
    },
  );

  it('MXNet: a stage is its last node, with or without the prefix', () => {
    const { graph, truth } = read('mxnet.resnet18_v1');
    for (const [stage, block] of [
      ['stage1', 'features.4'],
      ['stage4', 'features.7'],
      ['resnetv15_stage2', 'features.5'],
    ] as const) {
      expect(truth.names[block]).toContain(tensorOf(graph, stage).tensor);
    }
    expect(tensorOf(graph, 'stage5').code).toBe('NAME_NOT_FOUND');
  });

  it('Paddle: names are flat counters, so tensors are asked for by their own', () => {
    const { graph, truth } = read('paddle.alexnet.p2o');
    for (const [path, tensors] of Object.entries(truth.names)) {
      expect(tensorOf(graph, path).code, path).toBe('NAME_NOT_FOUND');
      for (const tensor of tensors) expect(tensorOf(graph, tensor).tensor).toBe(tensor);
    }
  });

  it('Keras: a folded convolution is refused, and its BatchNorm named', () => {
    const { graph } = read('keras.small-nested.tf216.export');
    expect(() => resolveNames(graph, ['stem_conv'])).toThrow(
      expect.objectContaining({ code: 'NAME_FOLDED', details: { request: 'stem_conv', instead: 'stem_bn' } }),
    );
  });

  it('Keras: a nested model that ends in a convolution whose BatchNorm is outside is refused', () => {
    const bytes = modelBytes(
      {
        inputs: ['x'],
        outputs: ['y'],
        initializers: { 'model/inner/conv/Conv2D/ReadVariableOp:0': [1], 'model/bn/ReadVariableOp:0': [1] },
        nodes: [
          { op: 'Relu', name: 'model/inner/act/Relu', inputs: ['x'], outputs: ['model/inner/act/Relu:0'] },
          {
            op: 'Conv',
            name: 'model/inner/conv/Conv2D',
            inputs: [
              'model/inner/act/Relu:0',
              'model/inner/conv/Conv2D/ReadVariableOp:0',
              'model/bn/ReadVariableOp:0',
            ],
            outputs: ['model/bn/FusedBatchNormV3:0'],
          },
          {
            op: 'Relu',
            name: 'model/out/Relu',
            inputs: ['model/bn/FusedBatchNormV3:0'],
            outputs: ['model/out/Relu:0'],
          },
          { op: 'Identity', name: 'y', inputs: ['model/out/Relu:0'], outputs: ['y'] },
        ],
      },
      { producer: 'tf2onnx' },
    );
    const graph = buildGraph(scanModel(memorySource(bytes)));
    expect(tensorOf(graph, 'inner')).toEqual({ code: 'NAME_FOLDED' });
    expect(tensorOf(graph, 'inner/act').tensor).toBe('model/inner/act/Relu:0');
    expect(tensorOf(graph, 'bn').tensor).toBe('model/bn/FusedBatchNormV3:0');
  });

  it('no names by order where the wiring is another', () => {
    const conv = (k: number, from: string): NodeSpec => ({
      op: 'Conv',
      inputs: [from, `w${k}`],
      outputs: [`c${k}`],
    });
    const relu = (k: number): NodeSpec => ({ op: 'Relu', inputs: [`c${k}`], outputs: [`r${k}`] });
    const pool = (k: number, from: string): NodeSpec => ({
      op: 'MaxPool',
      inputs: [from],
      outputs: [`p${k}`],
    });
    const linear = (k: number, from: string): NodeSpec => ({
      op: 'Gemm',
      inputs: [from, `v${k}`],
      outputs: [`l${k}`],
    });
    const act = (k: number): NodeSpec => ({ op: 'Relu', inputs: [`l${k}`], outputs: [`a${k}`] });
    const shapes = [
      [64, 11],
      [192, 5],
      [384, 3],
      [256, 3],
      [256, 3],
    ];
    const alexnet = (secondReads: string, firstKernel: number): Graph =>
      buildGraph(
        scanModel(
          memorySource(
            modelBytes({
              inputs: ['x'],
              outputs: ['l3'],
              initializers: Object.fromEntries(
                shapes.map(([channels, kernel], k) => {
                  const side = k === 0 ? firstKernel : kernel!;
                  return [`w${k + 1}`, { dims: [channels!, 1, side, side], values: [] }];
                }),
              ),
              nodes: [
                conv(1, 'x'),
                relu(1),
                pool(1, 'r1'),
                conv(2, secondReads),
                relu(2),
                pool(2, 'r2'),
                conv(3, 'p2'),
                relu(3),
                conv(4, 'r3'),
                relu(4),
                conv(5, 'r4'),
                relu(5),
                pool(3, 'r5'),
                { op: 'Flatten', inputs: ['p3'], outputs: ['f'] },
                linear(1, 'f'),
                act(1),
                linear(2, 'a1'),
                act(2),
                linear(3, 'a2'),
              ],
            }),
          ),
        ),
      );
    expect(tensorOf(alexnet('p1', 11), 'features.3').tensor).toBe('c2');
    expect(tensorOf(alexnet('r1', 11), 'features.3').code).toBe('NAME_NOT_FOUND');
    expect(tensorOf(alexnet('p1', 3), 'features.3').code).toBe('NAME_NOT_FOUND');
  });

  it('TorchScript: parallel branches may be mixed, as onnxslim and Ultralytics write them', () => {
    const branch = (
      k: number,
      op: string,
      inputs: string[],
    ): { op: string; name: string; inputs: string[]; outputs: string[] } => ({
      op,
      name: `/head/cv${k}/act/${op}`,
      inputs,
      outputs: [`/head/cv${k}/act/${op}_output_0`],
    });
    const graph = buildGraph(
      scanModel(
        memorySource(
          modelBytes({
            inputs: ['x'],
            outputs: ['y'],
            nodes: [
              branch(1, 'Sigmoid', ['x']),
              branch(2, 'Sigmoid', ['x']),
              branch(1, 'Mul', ['x', '/head/cv1/act/Sigmoid_output_0']),
              branch(2, 'Mul', ['x', '/head/cv2/act/Sigmoid_output_0']),
              {
                op: 'Add',
                inputs: ['/head/cv1/act/Mul_output_0', '/head/cv2/act/Mul_output_0'],
                outputs: ['y'],
              },
            ],
          }),
        ),
      ),
    );
    expect(tensorOf(graph, 'head.cv1.act').tensor).toBe('/head/cv1/act/Mul_output_0');
  });
});

/** How many of the modules whose value is in the file resolve; the others cannot be told from modules with another value. */
const RIGHT: Readonly<Record<string, number>> = {
  ts: 29,
  'ts-preserve': 68,
  dynamo: 41,
  'ort-basic': 40,
  'ort-extended': 22,
  'ort-folded': 13,
  onnxslim: 40,
  onnxsim: 24,
};

describe('a network with convolutions in every kind of module (test/fixtures/make/folding.py)', () => {
  it.each(Object.entries(RIGHT))('%s: every name is right or refused', (file, least) => {
    const { graph, truth } = read(file, 'folding');
    const asked: (readonly [string, readonly string[]])[] = [
      ...Object.entries(truth.names),
      ...truth.absent.map((name) => [name, []] as const),
    ];
    const results = asked.map(([name, tensors]) => ({ name, tensors, tensor: tensorOf(graph, name).tensor }));
    const resolved = results.filter(({ tensor }) => tensor !== undefined);
    expect(resolved.filter(({ tensor, tensors }) => !tensors.includes(tensor!))).toEqual([]);
    expect(resolved.length).toBeGreaterThanOrEqual(least);
  });

  it.each(['ts', 'dynamo'])(
    '%s: convolutions without a BatchNorm resolve and are not marked as folded',
    (file) => {
      const { graph, truth } = read(file, 'folding');
      for (const name of ['std', 'std_nobias', 'plain', 'nobias', 'shift', 'head']) {
        const tensor = tensorOf(graph, name).tensor ?? '';
        expect(truth.names[name], name).toContain(tensor);
        expect(marksOf(graph, graph.values.get(tensor)!.producer!), name).toEqual([]);
      }
    },
  );

  it('names the convolution that a container ends in, and the tensor that exists', () => {
    const { graph } = read('ts', 'folding');
    expect(() => resolveNames(graph, ['alone'])).toThrow(
      expect.objectContaining({
        code: 'NAME_FOLDED',
        message: expect.stringMatching(/ends in the convolution "alone.pointwise".* may come after "alone"/),
        details: { request: 'alone', instead: 'tensor:/alone/pointwise/Conv_output_0' },
      }),
    );
  });
});
