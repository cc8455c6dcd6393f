import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { isTapirError, type TapirError } from '../../../../src/base/errors.js';
import { buildGraph } from '../../../../src/onnx/graph/build-graph.js';
import type { Graph } from '../../../../src/onnx/graph/graph.js';
import { listNames } from '../../../../src/onnx/graph/names/name-list.js';
import { resolveNames } from '../../../../src/onnx/graph/names/resolve-names.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { fixturePath, tinyResNet } from '../../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';

const graphOf = (bytes: Uint8Array): Graph => buildGraph(scanModel(memorySource(bytes)));
const graphFrom = (spec: GraphSpec): Graph => graphOf(modelBytes(spec));
const tensorOf = (graph: Graph, request: string): string => resolveNames(graph, [request])[0]!.value.name;

function failure(graph: Graph, ...requests: string[]): TapirError {
  try {
    resolveNames(graph, requests);
  } catch (error) {
    if (isTapirError(error)) return error;
    throw error;
  }
  throw new Error(`${requests.join()} resolved`);
}

interface Expected {
  readonly path: string;
  readonly kind: 'container' | 'leaf';
  /** Empty if the exporter folded the value away. */
  readonly tensors: readonly string[];
}

describe.each(['resnet50.ts', 'resnet50.dynamo', 'mobilenet_v3_large.ts', 'resnet18.batch1.ts'])(
  'torchvision names in %s',
  (name) => {
    const graph = graphOf(readFileSync(fixturePath(`names/${name}.skeleton.onnx`)));
    const expected = JSON.parse(readFileSync(fixturePath(`names/${name}.json`), 'utf8')) as Expected[];

    it.each(expected.filter(({ tensors }) => tensors.length > 0))(
      '$path is the value that torchvision means',
      ({ path, tensors }) => {
        expect(tensors).toContain(tensorOf(graph, path));
      },
    );

    const folded = expected.filter(({ tensors }) => tensors.length === 0);
    it.runIf(folded.length > 0)('refuses convolutions that hold their BatchNorm, and names it', () => {
      for (const { path } of folded) {
        const error = failure(graph, path);
        expect(error.code).toBe('NAME_FOLDED');
        const { instead } = (error as TapirError<'NAME_FOLDED'>).details;
        expect(instead).toBeDefined();
        expect(tensorOf(graph, instead!)).toBeTruthy();
      }
    });

    it('lists names that resolve as they stand, each to another value, in execution order', () => {
      const names = listNames(graph);
      const values = resolveNames(graph, names).map(({ value }) => value);
      expect(new Set(values).size).toBe(names.length);
      const positions = values.map((value) => value.producer?.index ?? -1);
      expect(positions).toEqual(positions.toSorted((a, b) => a - b));
    });
  },
);

describe('names of a model with its BatchNorms', () => {
  const graph = graphOf(tinyResNet());

  it('include the convolutions', () => {
    expect(listNames(graph).slice(0, 5)).toEqual(['input', 'conv1', 'bn1', 'relu', 'maxpool']);
    expect(tensorOf(graph, 'layer1.0.conv1')).toBe('/layer1/layer1.0/conv1/Conv_output_0');
    expect(tensorOf(graph, 'layer1.0.bn1')).toBe('/layer1/layer1.0/bn1/BatchNormalization_output_0');
  });

  it('resolve each by itself, overlapping or repeated', () => {
    const requests = ['layer4', 'layer4.0', 'layer4.0.relu_2', 'layer4.0.add', 'layer4', 'fc', 'x'];
    const tensors = resolveNames(graph, requests).map(({ value }) => value.name);
    const relu = '/layer4/layer4.0/relu_2/Relu_output_0';
    expect(tensors).toEqual([relu, relu, relu, '/layer4/layer4.0/Add_output_0', relu, 'output', 'input']);
  });

  it('refuse parts of atoms, patterns and empty paths', () => {
    for (const name of ['lay', 'layer', 'layer4.', '.*', 'layer.', 'layer1.0.', 'output.x']) {
      expect(failure(graph, name).code, name).toBe('NAME_NOT_FOUND');
    }
  });

  it('name all unknown requests in one error, with the nearest', () => {
    const error = failure(graph, 'layer5', 'relu', 'avgpol') as TapirError<'NAME_NOT_FOUND'>;
    expect(error.details.names.map(({ request }) => request)).toEqual(['layer5', 'avgpol']);
    expect(error.details.names[0]!.nearest).toContain('layer4');
    expect(error.details.names[1]!.nearest[0]).toBe('avgpool');
    expect(failure(graph, 'a').message).not.toContain('""');
    expect(error.message).toContain('tapir nodes');
  });

  it('say which comes first where name and key have changed places', () => {
    expect(() => resolveNames(graph, ['features'], ['layer4'])).toThrow(
      "the node comes first, and its key second: { 'layer4': 'features' }",
    );
    expect(() => resolveNames(graph, ['features'], ['vector'])).toThrow('tapir nodes');
  });
});

const relu = (scope: string, input: string, more: object = {}): GraphSpec['nodes'][number] => ({
  op: 'Relu',
  name: `${scope}/Relu`,
  inputs: [input],
  outputs: [`${scope}/Relu_output_0`],
  ...more,
});

describe('nodes of one name', () => {
  it('are ambiguous by their outputs as well', () => {
    const graph = graphFrom({
      inputs: ['a'],
      outputs: ['q'],
      nodes: [
        { op: 'Relu', name: 'n', inputs: ['a'], outputs: ['p'] },
        { op: 'Relu', name: 'n', inputs: ['p'], outputs: ['q'] },
      ],
    });
    expect(failure(graph, 'n:0')).toMatchObject({
      code: 'NAME_AMBIGUOUS',
      details: { readings: [{ tensor: 'p' }, { tensor: 'q' }] },
    });
  });
});

describe('names that would lie', () => {
  it('refuse torchvision numbering where a module has that very name (ViT: ln_1)', () => {
    const graph = graphFrom({
      inputs: ['a'],
      outputs: ['/b/ln_2/Relu_output_0'],
      nodes: [relu('/b/ln_1', 'a'), relu('/b/ln_2', '/b/ln_1/Relu_output_0')],
    });
    const error = failure(graph, 'b.ln_1') as TapirError<'NAME_AMBIGUOUS'>;
    expect(error.code).toBe('NAME_AMBIGUOUS');
    expect(error.details.readings.map(({ request }) => request)).toEqual(['module:b.ln_1', 'module:b.ln_2']);
    expect(tensorOf(graph, 'module:b.ln_1')).toBe('/b/ln_1/Relu_output_0');
    expect(tensorOf(graph, 'b.ln_2')).toBe('/b/ln_2/Relu_output_0');
    expect(tensorOf(graph, 'b.ln')).toBe('/b/ln_1/Relu_output_0');
  });

  it('take a container that runs twice to the end of its second run', () => {
    const nodes = [
      relu('/blk/act', 'a'),
      relu('/blk', '/blk/act/Relu_output_0'),
      relu('/blk/act_1', '/blk/Relu_output_0'),
      relu('/blk_1', '/blk/act_1/Relu_output_0'),
    ];
    expect(tensorOf(graphFrom({ inputs: ['a'], outputs: ['/blk_1/Relu_output_0'], nodes }), 'blk')).toBe(
      '/blk_1/Relu_output_0',
    );
  });

  it('take a container to the end of its run, and not to that of a child that the network calls without it', () => {
    const chain = (...names: string[]): Graph =>
      graphFrom({
        inputs: ['x'],
        outputs: [`v${names.length - 1}`],
        nodes: names.map((name, i) => ({
          op: 'Relu',
          inputs: [i === 0 ? 'x' : `v${i - 1}`],
          outputs: [`v${i}`],
          name,
        })),
      });
    const called = chain('/features/features.0/Relu', '/features/features.1/Relu', '/features.0/Relu_1');
    expect(tensorOf(called, 'features')).toBe('v1');
    // A list of modules never runs itself.
    const list = chain('/layers.0/Relu', '/layers.1/Relu');
    expect(tensorOf(list, 'layers')).toBe('v1');
  });

  it('take a convolution that runs again, or shares its weight with another, for what it is: nothing is folded', () => {
    const conv = (name: string, input: string, weight: string): GraphSpec['nodes'][number] => ({
      op: 'Conv',
      name: `${name}/Conv`,
      inputs: [input, `${weight}.weight`, `${weight}.bias`],
      outputs: [`${name}/Conv_output_0`],
    });
    const nodes = [
      conv('/head/head.0', 'x', 'head.0'),
      relu('/head/head.1', '/head/head.0/Conv_output_0'),
      conv('/head/head.0_1', '/head/head.1/Relu_output_0', 'head.0'),
      conv('/tied', '/head/head.0_1/Conv_output_0', 'head.0'),
    ];
    const graph = graphFrom({
      inputs: ['x'],
      outputs: ['/tied/Conv_output_0'],
      initializers: { 'head.0.weight': { dims: [1, 1, 1, 1], values: [2] }, 'head.0.bias': [1] },
      nodes,
    });
    expect(tensorOf(graph, 'head.0')).toBe('/head/head.0/Conv_output_0');
    expect(tensorOf(graph, 'head.0_1')).toBe('/head/head.0_1/Conv_output_0');
    expect(tensorOf(graph, 'tied')).toBe('/tied/Conv_output_0');
  });

  it('give a Dropout that vanished from a Sequential the value it passes on, and no other gap', () => {
    const nodes = [relu('/c/c.1', 'a'), relu('/c/c.3', '/c/c.1/Relu_output_0')];
    const graph = graphFrom({ inputs: ['a'], outputs: ['/c/c.3/Relu_output_0'], nodes });
    const [resolved] = resolveNames(graph, ['c.2']);
    expect(resolved).toMatchObject({
      value: { name: '/c/c.1/Relu_output_0' },
      why: expect.stringContaining('Dropout'),
    });
    for (const name of ['c.0', 'c.4', 'c.9']) expect(failure(graph, name).code).toBe('NAME_NOT_FOUND');
  });

  it('give a Dropout in front of a Linear what enters it, and nothing in front of a convolution', () => {
    const layer = (op: string): Graph =>
      graphFrom({
        inputs: ['a'],
        outputs: ['y'],
        initializers: { 'c.1.weight': [1] },
        nodes: [{ op, name: `/c/c.1/${op}`, inputs: ['a', 'c.1.weight'], outputs: ['y'] }],
      });
    expect(tensorOf(layer('Gemm'), 'c.0')).toBe('a');
    expect(failure(layer('Conv'), 'c.0').code).toBe('NAME_NOT_FOUND');
  });

  it('take no gap between branches for a Dropout', () => {
    const nodes = [
      relu('/c/c.1', 'a'),
      relu('/c/c.3', 'a'),
      { op: 'Add', inputs: ['/c/c.1/Relu_output_0', '/c/c.3/Relu_output_0'], outputs: ['y'] },
    ];
    expect(failure(graphFrom({ inputs: ['a'], outputs: ['y'], nodes }), 'c.2').code).toBe('NAME_NOT_FOUND');
  });

  it('refuse a torch.cat that may be two merged ones', () => {
    const conv = (name: string, input: string): GraphSpec['nodes'][number] => ({
      op: 'Conv',
      name: `/m/${name}/Conv`,
      inputs: [input, `m.${name}.weight`],
      outputs: [name],
    });
    const nodes = [
      conv('one', 'a'),
      conv('stem', 'a'),
      conv('left', 'stem'),
      conv('right', 'stem'),
      { op: 'Concat', name: '/m/Concat', inputs: ['one', 'left', 'right'], outputs: ['y'] },
    ];
    const weights = {
      'm.one.weight': [1],
      'm.stem.weight': [1],
      'm.left.weight': [1],
      'm.right.weight': [1],
    };
    const graph = graphFrom({ inputs: ['a'], outputs: ['y'], nodes, initializers: weights });
    expect(failure(graph, 'm.cat').code).toBe('NAME_FOLDED');
    expect(tensorOf(graph, 'm')).toBe('y');
  });
});

describe('tensor and node names', () => {
  const graph = graphFrom({
    inputs: ['a'],
    outputs: ['b', 'same', 'c2'],
    nodes: [
      { op: 'Relu', name: 'same', inputs: ['a'], outputs: ['b'] },
      { op: 'Relu', name: 'n', inputs: ['b'], outputs: ['same'] },
      { op: 'Split', name: 'two', inputs: ['b'], outputs: ['c1', 'c2'] },
      { op: 'Relu', inputs: ['c1'], outputs: ['d'] },
    ],
  });

  it('are both accepted; where they differ, the prefixes choose', () => {
    expect(tensorOf(graph, 'n')).toBe('same');
    const error = failure(graph, 'same') as TapirError<'NAME_AMBIGUOUS'>;
    expect(error.details.readings).toEqual([
      { request: 'tensor:same', tensor: 'same' },
      { request: 'node:same', tensor: 'b' },
    ]);
    expect(tensorOf(graph, 'tensor:same')).toBe('same');
    expect(tensorOf(graph, 'node:same')).toBe('b');
  });

  it('ask which output of a node is meant', () => {
    const error = failure(graph, 'two') as TapirError<'NAME_AMBIGUOUS'>;
    expect(error.details.readings.map(({ request }) => request)).toEqual(['node:two:0', 'node:two:1']);
    expect(tensorOf(graph, 'two:1')).toBe('c2');
    expect(tensorOf(graph, 'node:two:0')).toBe('c1');
    expect(failure(graph, 'two:2').code).toBe('NAME_NOT_FOUND');
  });

  it('say where a name stands that is not in the main graph', () => {
    const body: GraphSpec = {
      outputs: ['inner'],
      nodes: [{ op: 'Relu', inputs: ['a'], outputs: ['inner'] }],
    };
    const nodes = [
      {
        op: 'If',
        name: 'choice',
        inputs: ['c'],
        outputs: ['y'],
        bodies: { then_branch: body, else_branch: body },
      },
    ];
    const error = failure(graphFrom({ inputs: ['a', 'c'], outputs: ['y'], nodes }), 'inner');
    expect(error).toMatchObject({
      code: 'NAME_INSIDE_BODY',
      details: { where: 'then_branch of If "choice"' },
    });
  });

  it('may be the names of JavaScript’s own members', () => {
    const nodes = [
      { op: 'Relu', inputs: ['constructor'], outputs: ['__proto__'] },
      { op: 'Relu', inputs: ['__proto__'], outputs: ['toString'] },
    ];
    const odd = graphFrom({ inputs: ['constructor'], outputs: ['toString'], nodes });
    expect(listNames(odd)).toEqual(['constructor', '__proto__', 'toString']);
    expect(failure(odd, 'hasOwnProperty').code).toBe('NAME_NOT_FOUND');
  });
});

/** Names of computed/make.py whose values exporters computed, merged or left out. */
const LOST = {
  ts: ['weighted.relu', 'weighted.add', 'weighted.add_1', 'twice.relu_1', 'turned.1', 'norms.1'],
  dynamo: [
    'weighted.relu',
    'weighted.add',
    'weighted.add_1',
    'twice.relu_1',
    'turned.1',
    'norms.1',
    'clipped.1',
    'padded.pad',
  ],
};

describe.each(['ts', 'dynamo'] as const)('parts that the %s exporter computed or merged', (exporter) => {
  const graph = graphOf(readFileSync(fixturePath(`computed/computed.${exporter}.onnx`)));

  it('have no names, as torch counts them and their values are not in the file', () => {
    for (const name of LOST[exporter])
      expect(['NAME_FOLDED', 'NAME_AMBIGUOUS', 'NAME_NOT_FOUND'], name).toContain(failure(graph, name).code);
  });

  it('leave the names around them', () => {
    for (const name of ['weighted', 'twice.relu', 'clipped.2', 'turned.2', 'norms.2', 'padded.pool'])
      expect(tensorOf(graph, name), name).not.toBe('');
  });
});

describe('modules whose end the dynamo exporter merged into what follows', () => {
  const graph = graphOf(readFileSync(fixturePath('computed/merged.dynamo.onnx')));

  it.each(['features', 'turned'])('have no value: %s', (name) => {
    expect(failure(graph, name)).toMatchObject({ code: 'NAME_FOLDED' });
  });

  it('leave the layers in front of an activation', () => {
    expect(tensorOf(graph, 'features.0')).toBe('conv2d');
  });
});
