/** What the page knows of a model without running it. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { describeModel } from '../../../../../src/products/pages/explore/structure/describe-model.js';
import type { ModelStructure } from '../../../../../src/products/pages/explore/structure/model-structure.js';
import { openModel } from '../../../../../src/run/model/open/open-model.js';
import { tinyTowers, tinyUNet } from '../../../../support/explore.js';
import { fixturePath, projectPath, tinyResNet } from '../../../../support/fixtures.js';
import { chain, modelBytes, type GraphSpec } from '../../../../support/graphs.js';

const read = async (bytes: Uint8Array): Promise<ModelStructure> =>
  describeModel(await openModel(bytes), 'folder/net.onnx');

/** The tree as text: boxes with their children in brackets, nodes by name. */
function outline({ boxes, nodes }: ModelStructure, box = 0, depth = 9): unknown[] {
  return boxes[box]!.children.flatMap((child) => {
    if (child >= 0) return nodes[child]?.role === 'data' ? [nodes[child].name] : [];
    const { name } = boxes[-1 - child]!;
    return [depth > 0 ? [name, outline({ boxes, nodes } as ModelStructure, -1 - child, depth - 1)] : name];
  });
}

describe('describeModel', () => {
  it('nests the modules of a ResNet, with the names of tapir nodes', async () => {
    const model = await read(tinyResNet());
    expect(model).toMatchObject({ title: 'net.onnx', path: 'folder/net.onnx' });
    const names = outline(model, 0, 0);
    expect(names.slice(-6)).toEqual(['layer2', 'layer3', 'layer4', 'avgpool', 'flatten', 'fc']);
    const layer4 = model.boxes.find(({ name }) => name === 'layer4')!;
    expect(model.nodes[layer4.value![0]]!.name).toBe('layer4.0.relu_2');
    expect(layer4.refusal).toBeNull();
  });

  it('every node and every value is in exactly one box, and every box in one', async () => {
    for (const bytes of [tinyResNet(), tinyUNet(), tinyTowers(), modelBytes(chain(700))]) {
      const { boxes, nodes, values } = await read(bytes);
      const children = boxes.flatMap((box) => box.children);
      const further = values.map((_, i) => nodes.length + i);
      const expected = [...nodes.keys(), ...further, ...boxes.slice(1).map((_, i) => -2 - i)];
      expect(children.toSorted((a, b) => a - b)).toEqual(expected.toSorted((a, b) => a - b));
    }
  });

  it('takes modules apart that others interrupt: the path of a U-Net stays a path', async () => {
    const names = outline(await read(tinyUNet()), 0, 0);
    expect(names).toEqual(['down.0', 'max_pool2d', 'down.1', 'up', 'cat', 'merge']);
  });

  it('keeps a module that computes sizes of its input together', async () => {
    const block = (name: string, from: string, to: string): GraphSpec['nodes'] => [
      { op: 'Relu', name: `/${name}/act/Relu`, inputs: [from], outputs: [`/${name}/act/Relu_output_0`] },
      { op: 'Shape', name: `/${name}/Shape`, inputs: [`/${name}/act/Relu_output_0`], outputs: [`${to}s`] },
      { op: 'Neg', name: `/${name}/Neg`, inputs: [`/${name}/act/Relu_output_0`], outputs: [`${to}n`] },
      { op: 'Reshape', name: `/${name}/Reshape`, inputs: [`${to}n`, `${to}s`], outputs: [to] },
    ];
    const nodes = [...block('one', 'x', 'a'), ...block('two', 'a', 'y')];
    const model = await read(modelBytes({ inputs: ['x'], outputs: ['y'], nodes }));
    expect(outline(model, 0, 0)).toEqual(['one', 'two']);
  });

  it.each(
    ['vit', 'swin', 'convnext', 'efficientnet'].flatMap((net) => [
      [net, 'ts'],
      [net, 'dynamo'],
    ]),
  )(
    'has a box for every module of a %s from the exporter %s that holds others, and no other box',
    async (net, exporter) => {
      const file = (ending: string): string => fixturePath(`modules/${net}.${ending}`);
      const modules = JSON.parse(readFileSync(file('json'), 'utf8')) as Record<string, boolean>;
      const { boxes, nodes, aliases, refusals } = await read(readFileSync(file(`${exporter}.onnx`)));
      const names = boxes.slice(1).map(({ name }) => name);
      expect(names).toEqual(expect.arrayContaining(Object.keys(modules).filter((name) => modules[name])));
      expect(names.filter((name) => !(name in modules))).toEqual([]);
      // The search finds all that computes something: what is left does nothing, or is a function's argument.
      const found = new Set([
        ...names,
        ...[...nodes, ...refusals].map(({ name }) => name),
        ...aliases.map(([name]) => name.replace('module:', '')),
      ]);
      const left = Object.keys(modules).filter((name) => !found.has(name));
      expect(
        left.filter((name) => !/dropout|stochastic_depth|mlp\.[24]$|qkv|proj$|classifier\.0/.test(name)),
      ).toEqual([]);
    },
  );

  it('puts a long row of nodes without modules into runs of runs', async () => {
    const { boxes, nodes, facts } = await read(modelBytes(chain(5000)));
    expect(boxes[0]!.children.length).toBeLessThan(80);
    expect(Math.max(...boxes.map(({ children }) => children.length))).toBeLessThan(80);
    expect(boxes[1]).toMatchObject({ kind: 'run', value: null, about: 'Relu' });
    expect(boxes[1]!.name).toMatch(/^n0 … n\d+$/);
    expect(nodes).toHaveLength(5000);
    expect(facts).toContain('Its nodes carry no module paths: long rows of nodes are shown as runs.');
  });

  it('says where the names of folded modules went', async () => {
    const { refusals, nodes, facts } = await read(tinyUNet());
    expect(nodes.filter(({ marks }) => marks.includes('folded')).map(({ name }) => name)).toEqual([
      'down.0.1',
      'down.1.1',
      'merge.0.1',
    ]);
    const refused = refusals.find(({ name }) => name === 'down.0.0')!;
    expect(refused).toMatchObject({ instead: 'down.0.1' });
    expect(refused.why).toContain('BatchNorm');
    expect(facts).toContain(
      '3 convolutions hold the BatchNorm after it: its own value is not in the file, so its own name is refused.',
    );
    expect(facts[0]).toBe('Written by pytorch: operator set 17, local 1, format version 8.');
    expect(facts.some((fact) => fact.endsWith('any batch.'))).toBe(true);
  });

  it('knows who reads what, and who holds which weights', async () => {
    const { nodes, weights, inputs } = await read(tinyUNet());
    const cat = nodes.findIndex(({ op }) => op === 'Concat');
    expect(nodes[cat]!.reads.map(([source]) => nodes[source]!.name)).toEqual(['down.0.2', 'up']);
    expect(nodes[0]!.reads).toEqual([[-1, 0]]);
    expect(inputs[0]).toMatchObject({ tensor: 'image', dims: ['batch', 3, 16, 16] });
    expect(weights[nodes[0]!.weights[0]!]).toEqual([4 * 3 * 9, 4 * 4 * 3 * 9]);
  });

  it('spells out characters that disguise a name', async () => {
    const model = await read(
      modelBytes({
        inputs: ['x'],
        outputs: ['a\u202eb'],
        nodes: [{ op: 'Relu', inputs: ['x'], outputs: ['a\u202eb'] }],
      }),
    );
    expect(model.nodes[0]!.name).toBe('a\\u202eb');
    expect(model.nodes[0]!.outputs[0]!.tensor).toBe('a\u202eb');
  });
});

it('counts weights behind DequantizeLinear as parameters, with their types', async () => {
  const { weights, parameterTypes } = describeModel(
    await openModel(readFileSync(projectPath('models/demo.onnx'))),
    'demo.onnx',
  );
  // Counted with onnx: 3,328,992 in int8, and 42,018 floats, of which the scales are no parameters.
  expect(parameterTypes[0]).toBe('int8');
  const parameters = weights.reduce((sum, [elements]) => sum + elements, 0);
  expect(parameters).toBeGreaterThan(3_328_992);
  expect(parameters).toBeLessThan(3_328_992 + 42_019);
});
