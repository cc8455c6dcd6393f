/** What a rewriter of ONNX files must handle (graph-surgery.md §7), entry by entry, where no corpus file shows it alone. */
import onnxProto from 'onnx-proto';
import { describe, expect, it } from 'vitest';
import { isTapirError } from '../../../../src/base/errors.js';
import { openModel } from '../../../../src/run/model/open/open-model.js';
import { pruneModel } from '../../../../src/run/model/oracle/prune-model.js';
import type { PrunedModel } from '../../../../src/run/model/prune/pruned-model.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { encodeFieldHead } from '../../../../src/onnx/file/wire/wire.js';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';

const { onnx } = onnxProto;
type Model = ReturnType<typeof onnx.ModelProto.decode>;

/** A model with more in it than the specification of tests can say. */
function withMore(spec: GraphSpec, change: (model: Model) => void): Uint8Array {
  const model = onnx.ModelProto.decode(modelBytes(spec));
  change(model);
  return onnx.ModelProto.encode(model).finish();
}

const cut = (bytes: Uint8Array, ...names: string[]): Promise<PrunedModel> =>
  pruneModel(
    bytes,
    names.map((name) => `tensor:${name}`),
  );

async function codeOf(promise: Promise<unknown>): Promise<string> {
  const error: unknown = await promise.catch((caught: unknown) => caught);
  return isTapirError(error) ? error.code : String(error);
}

/** `y = relu(a)` and a dead branch `z = b + w`. */
const twoBranches: GraphSpec = {
  inputs: ['a', 'b'],
  outputs: ['y', 'z'],
  initializers: { w: [1] },
  nodes: [
    { op: 'Relu', name: 'left', inputs: ['a'], outputs: ['y'] },
    { op: 'Add', name: 'right', inputs: ['b', 'w'], outputs: ['z'] },
  ],
};

describe('must handle', () => {
  it('names that a body defines itself are not captured: formal inputs, initializers, outputs', async () => {
    const body: GraphSpec = {
      inputs: ['i', 'c', 'shadow'],
      outputs: ['c', 'o'],
      initializers: { inner: [2] },
      nodes: [{ op: 'Sum', inputs: ['shadow', 'inner', 'outer'], outputs: ['o'] }],
    };
    const spec: GraphSpec = {
      inputs: ['n', 'k', 'x'],
      outputs: ['y'],
      initializers: { outer: [1], inner: [9], shadow: [8] },
      nodes: [{ op: 'Loop', inputs: ['n', 'k', 'x'], outputs: ['y'], bodies: { body } }],
    };
    expect((await cut(modelBytes(spec), 'y')).plan.kept.initializers).toEqual(['outer']);
  });

  it('functions are found through bodies and through functions, by domain and name', async () => {
    const fn = (domain: string, name: string, calls: string): object => ({
      name,
      domain,
      input: ['x'],
      output: ['r'],
      node: [{ opType: calls, domain: calls === 'Relu' ? '' : domain, input: ['x'], output: ['r'] }],
      opsetImport: [{ domain: '', version: 17 }],
    });
    const branch: GraphSpec = {
      outputs: ['o'],
      nodes: [{ op: 'Outer', domain: 'local', inputs: ['x'], outputs: ['o'] }],
    };
    const spec: GraphSpec = {
      inputs: ['x', 'c'],
      outputs: ['y'],
      nodes: [
        { op: 'If', inputs: ['c'], outputs: ['y'], bodies: { then_branch: branch, else_branch: branch } },
      ],
    };
    const functions = [
      fn('local', 'Outer', 'Inner'),
      fn('local', 'Inner', 'Relu'),
      fn('other', 'Inner', 'Relu'),
      fn('local', 'Unused', 'Relu'),
    ];
    const { plan } = await cut(modelBytes(spec, { functions }), 'y');
    expect(plan.kept.functions).toEqual(['Outer', 'Inner']);
    expect(plan.dropped.functions).toEqual(['Inner', 'Unused']);
    const circle = [fn('local', 'Outer', 'Inner'), fn('local', 'Inner', 'Outer')];
    expect(await codeOf(cut(modelBytes(spec, { functions: circle }), 'y'))).toBe('GRAPH_INVALID');
    expect(await codeOf(cut(modelBytes(spec, { functions }), 'r'))).toBe('NAME_NOT_FOUND');
    await expect(pruneModel(modelBytes(spec, { functions }), ['r'])).rejects.toMatchObject({
      code: 'NAME_INSIDE_BODY',
      details: { where: 'function "Outer"', outside: ['y'] },
    });
  });

  it('scale and zero point of a quantised tensor stay with it', async () => {
    const bytes = withMore(
      { ...twoBranches, initializers: { w: [1], scale: [2], zero: [3], other: [4] } },
      (model) => {
        const annotate = (tensorName: string, value: string): object => ({
          tensorName,
          quantParameterTensorNames: [
            { key: 'SCALE_TENSOR', value },
            { key: 'ZERO_POINT_TENSOR', value: 'zero' },
          ],
        });
        model.graph!.quantizationAnnotation = [annotate('y', 'scale'), annotate('z', 'other')] as never;
      },
    );
    const pruned = await cut(bytes, 'y');
    expect(pruned.plan.kept.initializers).toEqual(['scale', 'zero']);
    const { graph } = scanModel(memorySource(await pruned.bytes()));
    expect(graph.annotations.map(({ tensor }) => tensor)).toEqual(['y']);
  });

  it('sparse initializers stay or go by the name of their values', async () => {
    const bytes = withMore(twoBranches, (model) => {
      const sparse = (name: string): object => ({
        values: { name, dims: [1], dataType: 1, floatData: [1] },
        indices: { dims: [1], dataType: 7, int64Data: [0] },
        dims: [4],
      });
      model.graph!.sparseInitializer = [sparse('s'), sparse('t')] as never;
      model.graph!.node![0]!.opType = 'Add';
      model.graph!.node![0]!.input = ['a', 's'];
    });
    const { plan } = await cut(bytes, 'y');
    expect(plan.kept.initializers).toEqual(['s']);
    expect(plan.dropped.initializers).toEqual(['w', 't']);
  });

  it('training_info goes with what it refers to, and the plan says so', async () => {
    const bytes = withMore(twoBranches, (model) => {
      model.trainingInfo = [{ algorithm: { name: 'step' } }] as never;
    });
    const pruned = await cut(bytes, 'y');
    expect(pruned.plan.notes).toEqual(['training_info was dropped: it refers to dropped parts']);
    const whole = await cut(bytes, 'y', 'z');
    expect(whole.plan.notes).toEqual([]);
    expect(Buffer.compare(await whole.bytes(), bytes)).toBe(0);
  });

  it('before IR version 4 an initializer and its input entry stay together, and are not fed', async () => {
    const bytes = withMore(twoBranches, (model) => {
      model.irVersion = 3;
      model.graph!.input!.push(model.graph!.input![0]!);
      model.graph!.input!.at(-1)!.name = 'w';
      model.graph!.input![0] = onnx.ValueInfoProto.create({ ...model.graph!.input![0], name: 'a' });
    });
    const pruned = await cut(bytes, 'z');
    const { graph } = scanModel(memorySource(await pruned.bytes()));
    expect(graph.inputs.map(({ name }) => name)).toEqual(['b', 'w']);
    expect((await openModel(await pruned.bytes())).inputs.map(({ name }) => name)).toEqual(['b']);
    // What a rewrite adds is listed too.
    const half = await pruneModel(bytes, { 'tensor:z': 'v' }, { outputDtype: 'float16' });
    const added = scanModel(memorySource(await half.bytes())).graph;
    expect(added.inputs.map(({ name }) => name)).toEqual(
      expect.arrayContaining(added.initializers.map(({ name }) => name)),
    );
  });

  it('files of ONNX Runtime’s optimiser are told from others', async () => {
    const spec: GraphSpec = {
      ...twoBranches,
      nodes: [{ op: 'Conv', domain: 'com.microsoft.nchwc', inputs: ['a', 'w'], outputs: ['y'] }],
      outputs: ['y'],
    };
    expect((await cut(modelBytes(spec), 'y')).plan.notes.join()).toContain('optimiser of ONNX Runtime');
  });

  it('a node that gives out what is fed now, and has another’s name, gets both changed', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['y'],
      nodes: [
        { op: 'Relu', name: 'n', inputs: ['a'], outputs: ['t'] },
        { op: 'Split', name: 'n', inputs: ['t'], outputs: ['p', 'q'] },
        { op: 'Add', name: 'n', inputs: ['p', 'q'], outputs: ['y'] },
      ],
    };
    const types = withMore(spec, (model) => {
      model.graph!.valueInfo = [
        onnx.ValueInfoProto.create({ ...model.graph!.input![0], name: 'p' }),
      ] as never;
    });
    const names = ['tensor:y'];
    const pruned = await pruneModel(types, names, { inputs: ['tensor:a', 'tensor:p'], tidy: true });
    const { nodes } = scanModel(memorySource(await pruned.bytes())).graph;
    expect(nodes.map(({ name, outputs }) => [name, outputs])).toEqual([
      ['n', ['t']],
      ['n_1', ['p/computed', 'q']],
      ['n_2', ['y']],
    ]);
  });

  it('a model without operators of the default domain gets its import with the nodes that are added', async () => {
    const bytes = withMore(
      {
        ...twoBranches,
        nodes: [{ op: 'Own', domain: 'local', inputs: ['a'], outputs: ['y'] }],
        outputs: ['y'],
      },
      (model) => {
        model.opsetImport = [{ domain: 'local', version: 1 }] as never;
      },
    );
    const { opsets } = scanModel(
      memorySource(await (await pruneModel(bytes, { 'tensor:y': 'out' })).bytes()),
    );
    expect([...opsets]).toEqual([
      ['local', 1],
      ['', 13],
    ]);
  });

  it('fields that are newer than any schema here stay, in the model, the graph and its nodes', async () => {
    const bytes = modelBytes(twoBranches);
    const unknown = Buffer.concat([encodeFieldHead(99, 3), Buffer.from('new')]);
    const { graph } = scanModel(memorySource(bytes));
    const [part] = graph.parts;
    const node = graph.nodes[0]!.field;
    const newNode = Buffer.concat([
      encodeFieldHead(1, node.end - node.bodyStart + unknown.length),
      bytes.subarray(node.bodyStart, node.end),
      unknown,
    ]);
    const body = Buffer.concat([
      bytes.subarray(part!.field.bodyStart, node.start),
      newNode,
      bytes.subarray(node.end, part!.field.end),
      unknown,
    ]);
    const model = Buffer.concat([
      bytes.subarray(0, part!.field.start),
      encodeFieldHead(7, body.length),
      body,
      bytes.subarray(part!.field.end),
      unknown,
    ]);
    const pruned = Buffer.from(await (await cut(model, 'y')).bytes());
    expect(pruned.toString('latin1').split(unknown.toString('latin1'))).toHaveLength(4);
  });
});
