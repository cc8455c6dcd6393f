/** What the page computes by itself: flows, rows, cuts, names and code. */
import { beforeAll, describe, expect, it } from 'vitest';
import { describeModel } from '../../../../../src/products/pages/explore/structure/describe-model.js';
import { cutFile, writeCode } from '../../../../../src/products/pages/explore/page/code.js';
import { keepFor } from '../../../../../src/products/pages/explore/page/cut.js';
import type { ModelStructure } from '../../../../../src/products/pages/explore/structure/model-structure.js';
import { formatDims, signOf, splitName } from '../../../../../src/products/pages/explore/page/format.js';
import { ModelGraph, ROOT, type Id } from '../../../../../src/products/pages/explore/page/graph.js';
import { neighboursOf } from '../../../../../src/products/pages/explore/page/neighbours.js';
import { layOut, openAtFirst, sortFlows } from '../../../../../src/products/pages/explore/page/rows.js';
import { findNames, listNames } from '../../../../../src/products/pages/explore/page/search.js';
import { openModel, type OnnxModel } from '../../../../../src/run/model/open/open-model.js';
import { pruneModel } from '../../../../../src/run/model/oracle/prune-model.js';
import { tinyTowers, tinyUNet } from '../../../../support/explore.js';
import { tinyResNet } from '../../../../support/fixtures.js';
import { chain, modelBytes } from '../../../../support/graphs.js';

let resnet: OnnxModel;
let model: ModelStructure;
let graph: ModelGraph;
beforeAll(async () => {
  resnet = await openModel(tinyResNet());
  model = describeModel(resnet, 'net.onnx');
  graph = new ModelGraph(model);
});

const idOf = (of: ModelGraph, name: string): Id => {
  const box = of.model.boxes.findIndex((one) => one.name === name);
  if (box >= 0) return -1 - box;
  const count = of.model.nodes.length + of.model.values.length;
  return Array.from({ length: count }, (_, id) => id).find((id) => of.nameOf(id) === name)!;
};

describe('the graph of the page', () => {
  it('cuts as the package does: the same nodes and the same weights for every name', async () => {
    for (const bytes of [tinyResNet(), tinyUNet(), tinyTowers()]) {
      const opened = await openModel(bytes);
      const page = describeModel(opened, 'net.onnx');
      const all = new ModelGraph(page);
      for (const id of [...page.nodes.keys(), ...page.values.map((_, i) => page.nodes.length + i)]) {
        const name = all.requestOf(id)!;
        if (all.isHidden(id)) continue;
        const pruned = await pruneModel(opened, [name]);
        const { kept: expected } = pruned.plan;
        const kept = keepFor(page, [all.valueOf(id)![0]], undefined);
        expect(kept.nodes.size, name).toBe(expected.nodes.length);
        expect(kept.weights.size, name).toBe(expected.initializers.length);
        const { inputs } = await openModel(await pruned.bytes());
        expect(all.inputsOf(kept.inputs).map(({ tensor }) => tensor)).toEqual(
          inputs.map((input) => input.name),
        );
      }
    }
  });

  it('draws a residual connection from the entry of a block to its sum', () => {
    const block = idOf(graph, 'layer1.0');
    const children = graph.childrenOf(block, false);
    const names = children.map((child) => graph.nameOf(child));
    const add = names.findIndex((name) => name.endsWith('.add'));
    const flows = graph.flowsOf(block, false).filter(({ to }) => to === add);
    expect(flows.map(({ from }) => from).toSorted((a, b) => a - b)).toHaveLength(2);
    const { buses, straight } = sortFlows(graph.flowsOf(block, false), children.length);
    expect(buses.length).toBeGreaterThan(0);
    expect(straight.length + buses.reduce((sum, { targets }) => sum + targets.length, 0)).toBe(
      graph.flowsOf(block, false).filter(({ from, to }) => from >= 0 || to < children.length).length,
    );
  });

  it('draws lines from inputs and from further outputs, each from its row', async () => {
    const page = describeModel(await openModel(tinyTowers()), 'towers.onnx');
    const towers = new ModelGraph(page);
    const names = towers.childrenOf(ROOT, false).map((id) => towers.nameOf(id));
    expect(names).toEqual([
      'ids',
      'image',
      'split:0',
      'split:1',
      'seen',
      'sub',
      'topk:0',
      'topk:1',
      'cast',
      'most',
      'both',
    ]);
    const flows = towers.flowsOf(ROOT, false).map(({ from, to }) => `${names[from]} > ${names[to] ?? 'out'}`);
    expect(flows.toSorted()).toEqual(
      [
        'image > split:0',
        'split:0 > split:1',
        'split:0 > seen',
        'split:1 > sub',
        'seen > sub',
        'ids > topk:0',
        'topk:0 > topk:1',
        'topk:1 > out',
        'topk:0 > cast',
        'cast > most',
        'most > both',
        'sub > both',
        'both > out',
      ].toSorted(),
    );
    const rest = idOf(towers, 'split:1');
    expect(neighboursOf(towers, rest)).toEqual({ 'comes from': [0], 'is read by': [2] });
    expect(neighboursOf(towers, 0)).toMatchObject({ 'also gives': [rest] });
    expect(findNames(listNames(towers), 'topk:1', 1)[0]).toMatchObject({ about: 'output 1 of TopK' });
  });

  it('leaves out the batch of the inputs that a value needs', async () => {
    const towers = new ModelGraph(describeModel(await openModel(tinyTowers()), 'towers.onnx'));
    towers.model.inputs.forEach((input, i) => Object.assign(input, { dims: [i + 2, 1] }));
    const dims = towers.model.nodes.map(({ outputs }) => outputs.map(() => [3, 2, 8]));
    const nothing = { macs: [], bytes: [], milliseconds: null };
    towers.setMeasure({ inputs: [null, null], dims, ...nothing });
    // Ids have two rows, images three; the sum needs both, ids first.
    expect(towers.innerDimsOf(idOf(towers, 'split:1'))).toEqual([2, 8]);
    expect(towers.innerDimsOf(idOf(towers, 'topk:1'))).toEqual([3, 2, 8]);
    expect(towers.innerDimsOf(idOf(towers, 'both'))).toEqual([3, 2, 8]);
  });

  it('draws the skip of a U-Net past what lies between', async () => {
    const unet = new ModelGraph(describeModel(await openModel(tinyUNet()), 'unet.onnx'));
    const names = unet.childrenOf(ROOT, false).map((id) => unet.nameOf(id));
    const skips = unet
      .flowsOf(ROOT, false)
      .filter(({ from, to }) => to > from + 1)
      .map(({ from, to }) => [names[from], names[to]]);
    expect(skips).toEqual([['down.0', 'cat']]);
  });

  it('lays rows out without gaps or overlaps, with frames around open boxes', () => {
    const open = new Set(model.boxes.map((_, i) => -1 - i).slice(1));
    const { rows, frames, lines, height } = layOut(graph, open, false);
    expect(rows).toHaveLength(
      open.size + model.nodes.filter(({ role }) => role === 'data').length + model.inputs.length,
    );
    for (const [i, row] of rows.entries())
      if (i > 0) expect(row.y).toBeGreaterThanOrEqual(rows[i - 1]!.y + 36);
    for (const frame of frames) {
      const inside = rows.filter(({ y }) => y > frame.y && y + 36 <= frame.y + frame.height);
      expect(inside.map(({ id }) => id)).toEqual(
        expect.arrayContaining([...graph.childrenOf(frame.id, false)]),
      );
    }
    for (const line of lines) {
      expect(line.bottom).toBeLessThanOrEqual(height);
      if (line.lane !== undefined) expect(line.lane).toBeGreaterThan(0);
    }
  });

  it('opens whole levels at first, as far as they fit', () => {
    expect(openAtFirst(graph, 5).size).toBe(0);
    const rows = layOut(graph, openAtFirst(graph, 24), false).rows;
    expect(rows.length).toBeLessThanOrEqual(24);
    expect(rows.map(({ id }) => graph.nameOf(id))).toContain('layer4');
  });

  it('counts shared weights once, and adds costs up', () => {
    const parameters = graph.costOf(ROOT, 'parameters');
    expect(parameters).toBe(model.weights.reduce((sum, [elements]) => sum + elements, 0));
    expect(graph.costOf(ROOT, 'macs')).toBe(0);
  });

  it('finds names by parts, by letters, and the nearest ones for typing errors', () => {
    const names = listNames(graph);
    expect(findNames(names, 'layer4', 3)[0]).toMatchObject({ name: 'layer4', about: 'module' });
    expect(findNames(names, 'l4relu', 5).map(({ name }) => name)).toContain('layer4.0.relu');
    expect(findNames(names, 'avgpol', 3)[0]!.name).toBe('avgpool');
    expect(findNames(names, 'avgpoolx', 3)[0]!.name).toBe('avgpool');
    expect(findNames(names, '   ', 3)).toEqual([]);
  });

  it('is quick on 5,000 nodes', async () => {
    const large = new ModelGraph(describeModel(await openModel(modelBytes(chain(5000))), 'chain.onnx'));
    const started = performance.now();
    const open = new Set(large.model.boxes.map((_, i) => -1 - i).slice(1));
    const { rows } = layOut(large, open, false);
    expect(rows.length).toBeGreaterThan(5000);
    expect(performance.now() - started).toBeLessThan(5000);
  });
});

/** A model that takes what loadImage gives by default. */
const PLAIN = { input: 'input', transform: '', isTensor: true };
const IMAGE = { tensor: 'input', dtype: 'float32', dims: [1, 3, 8, 8] };

describe('code and text', () => {
  it('quotes what a shell or a language would read', () => {
    const names = ["it's", 'layer4', '$(rm -rf x)'];
    expect(writeCode('shell', { path: 'my net.onnx', names, inputs: [IMAGE] }, PLAIN)).toBe(
      `tapir extract 'my net.onnx' --return 'it'\\''s' --return layer4 --return '$(rm -rf x)' --out net.onnx\n`.replace(
        'net.onnx\n',
        `'${cutFile('my net.onnx', names)}'\n`,
      ),
    );
    expect(writeCode('typescript', { path: "a'b.onnx", names: ["it's"], inputs: [IMAGE] }, PLAIN)).toContain(
      `createFeatureExtractor('a\\'b.onnx', ['it\\'s'])`,
    );
    expect(
      writeCode('python', { path: 'resnet50.onnx', names: ['layer4'], inputs: [IMAGE] }, PLAIN),
    ).toContain('return_nodes=["layer4"]');
    expect(writeCode('python', { path: 'resnet50.onnx', names: ['tensor:/x'], inputs: [IMAGE] }, PLAIN)).toBe(
      '# torchvision has no such nodes: "tensor:/x"\n',
    );
  });

  it('names the file of a cut', () => {
    expect(cutFile('/models/resnet50.onnx', ['layer3', 'layer4.2.relu_2'])).toBe('resnet50-2-relu_2.onnx');
    expect(cutFile('net.onnx', ['tensor:/../'])).toMatch(/^net-\w+\.onnx$/);
  });

  it('splits names where a person reads them', () => {
    expect(splitName('layer4.2.conv1', 'layer4.2')).toEqual(['', 'conv1']);
    expect(splitName('layer4.2', 'layer4')).toEqual(['', 'layer4.2']);
    expect(splitName('a.b.c', '')).toEqual(['a.b.', 'c']);
    expect(splitName('/x/Conv_output_0', '')).toEqual(['/x/', 'Conv_output_0']);
  });

  it('shows sizes without the batch, and the sign for them', () => {
    expect(formatDims([64, null, 7])).toBe('64 × ? × 7');
    expect(formatDims([])).toBe('scalar');
    const [[h1, w1], [h2, w2]] = [signOf([64, 112, 112])!, signOf([2048, 7, 7])!];
    expect(h1).toBeGreaterThan(h2);
    expect(w1).toBeLessThan(w2);
    expect(signOf(['c', 'h', 'w'])).toBeUndefined();
  });
});
