import { describe, expect, it } from 'vitest';
import { isTapirError, type TapirError } from '../../../../src/base/errors.js';
import { openModel } from '../../../../src/run/model/open/open-model.js';
import { pruneModel } from '../../../../src/run/model/oracle/prune-model.js';
import type { PrunedModel } from '../../../../src/run/model/prune/pruned-model.js';
import type { ReturnNodes } from '../../../../src/run/model/open/return-nodes.js';
import { scanModel } from '../../../../src/onnx/file/scan/scan.js';
import { memorySource } from '../../../../src/onnx/file/wire/source.js';
import { chain, modelBytes, type GraphSpec } from '../../../support/graphs.js';

const prune = (spec: GraphSpec, nodes: ReturnNodes): Promise<PrunedModel> =>
  pruneModel(modelBytes(spec), nodes);

async function failureOf(promise: Promise<unknown>): Promise<TapirError> {
  const error: unknown = await promise.then(
    () => undefined,
    (caught: unknown) => caught,
  );
  if (isTapirError(error)) return error;
  throw new Error(`no TapirError but ${String(error)}`);
}

describe('pruneModel', () => {
  it('keeps what is needed, drops the rest, and says both', async () => {
    const spec: GraphSpec = {
      inputs: ['a', 'b'],
      outputs: ['y'],
      initializers: { w: [1], unused: [2], late: [3] },
      nodes: [
        { op: 'Add', name: 'first', inputs: ['a', 'w'], outputs: ['t'] },
        { op: 'Add', name: 'second', inputs: ['t', 'b'], outputs: ['u'] },
        { op: 'Add', inputs: ['u', 'late'], outputs: ['y'] },
      ],
    };
    const { plan } = await prune(spec, { first: 'features' });
    expect(plan.kept).toMatchObject({ nodes: ['first'], initializers: ['w'], inputs: ['a'] });
    expect(plan.dropped).toMatchObject({
      nodes: ['second', 'Add → y'],
      initializers: ['unused', 'late'],
      inputs: ['b'],
    });
    expect(plan.resolved).toEqual([
      { request: 'first', key: 'features', tensor: 't', node: 'first', why: 'node', computed: [] },
    ]);
  });

  it('keeps all outputs of a kept node', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['p', 'q'],
      nodes: [{ op: 'Split', inputs: ['a'], outputs: ['p', 'q'] }],
    };
    const model = await openModel(await (await prune(spec, ['q'])).bytes());
    expect(model.outputs.map(({ name }) => name)).toEqual(['q']);
    expect(model.nodes[0]?.outputs.map(({ name }) => name)).toEqual(['p', 'q']);
  });

  it('keeps what only a body reads', async () => {
    const body = (initializer: string): GraphSpec => ({
      outputs: ['o'],
      nodes: [{ op: 'Add', inputs: ['captured', initializer], outputs: ['o'] }],
    });
    const spec: GraphSpec = {
      inputs: ['a', 'c'],
      outputs: ['y'],
      initializers: { one: [1], two: [2], three: [3] },
      nodes: [
        { op: 'Relu', name: 'producer', inputs: ['a'], outputs: ['captured'] },
        {
          op: 'If',
          name: 'choice',
          inputs: ['c'],
          outputs: ['y'],
          bodies: { then_branch: body('one'), else_branch: body('two') },
        },
      ],
    };
    const { plan } = await prune(spec, ['y']);
    expect(plan.kept).toMatchObject({
      nodes: ['producer', 'choice'],
      initializers: ['one', 'two'],
      inputs: ['a', 'c'],
    });
  });

  it('gives the same bytes back for the outputs of a graph without dead parts', async () => {
    const bytes = modelBytes(chain(5));
    const pruned = await pruneModel(bytes, ['t5']);
    expect(Buffer.compare(await pruned.bytes(), bytes)).toBe(0);
    expect(pruned.plan.dropped.bytes).toBe(0);
  });

  it('is idempotent, and a union keeps the union of nodes', async () => {
    const spec = { ...chain(6), outputs: ['t6'] };
    const once = await (await prune(spec, ['t2', 't4'])).bytes();
    const twice = await (await pruneModel(once, ['t2', 't4'])).bytes();
    expect(Buffer.compare(once, twice)).toBe(0);
    const both = (await prune(spec, ['t2', 't4'])).plan.kept.nodes;
    const apart = [
      ...(await prune(spec, ['t2'])).plan.kept.nodes,
      ...(await prune(spec, ['t4'])).plan.kept.nodes,
    ];
    expect(new Set(both)).toEqual(new Set(apart));
  });

  it('names outputs by their keys through Identity, by their tensors without', async () => {
    const spec = chain(3);
    const keyed = await openModel(await (await prune(spec, { n2: 'features', n0: 'early' })).bytes());
    // The type that the file states goes over; where it states none, ONNX Runtime has inferred it.
    expect(keyed.outputs).toEqual([
      { name: 'features', dtype: 'float32', dims: ['n'] },
      { name: 'early', dtype: 'float32', dims: ['n'] },
    ]);
    expect(keyed.nodes.map(({ opType }) => opType)).toEqual(['Relu', 'Relu', 'Relu', 'Identity', 'Identity']);
    const plain = await pruneModel(modelBytes(spec), { t2: 'features' }, { keepTensorNames: true });
    expect((await openModel(await plain.bytes())).outputs.map(({ name }) => name)).toEqual(['t2']);
  });

  it('needs no Identity where the key is the tensor’s name', async () => {
    const model = await openModel(await (await prune(chain(3), { n1: 't2' })).bytes());
    expect(model.nodes.map(({ opType }) => opType)).toEqual(['Relu', 'Relu']);
  });

  it('writes the same name asked for twice once', async () => {
    const pruned = await prune(chain(3), ['t2', 't2']);
    expect(pruned.plan.resolved).toHaveLength(2);
    expect((await openModel(await pruned.bytes())).outputs).toHaveLength(1);
  });

  it('takes graph inputs and initializers as outputs', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['y'],
      initializers: { w: [1, 2] },
      nodes: [{ op: 'Add', inputs: ['a', 'w'], outputs: ['y'] }],
    };
    const model = await openModel(await (await prune(spec, ['w', 'a'])).bytes());
    expect(model.outputs.map(({ name }) => name)).toEqual(['w', 'a']);
    expect(model.nodes).toEqual([]);
  });

  it('keeps functions that are reached, also from bodies and other functions', async () => {
    const fn = (name: string, calls?: string): object => ({
      name,
      domain: 'local',
      input: ['x'],
      output: ['y'],
      opsetImport: [{ domain: '', version: 17 }],
      node: [
        { opType: calls ?? 'Relu', domain: calls === undefined ? '' : 'local', input: ['x'], output: ['y'] },
      ],
    });
    const body: GraphSpec = {
      outputs: ['o'],
      nodes: [{ op: 'Outer', domain: 'local', inputs: ['a'], outputs: ['o'] }],
    };
    const spec: GraphSpec = {
      inputs: ['a', 'c'],
      outputs: ['y'],
      nodes: [{ op: 'If', inputs: ['c'], outputs: ['y'], bodies: { then_branch: body, else_branch: body } }],
    };
    const functions = [fn('Outer', 'Inner'), fn('Inner'), fn('Unused')];
    const { plan } = await pruneModel(modelBytes(spec, { functions }), ['y']);
    expect(plan.kept.functions).toEqual(['Outer', 'Inner']);
    expect(plan.dropped.functions).toEqual(['Unused']);
    const circle = modelBytes(spec, { functions: [fn('Outer', 'Inner'), fn('Inner', 'Outer')] });
    expect(await failureOf(pruneModel(circle, ['y']))).toMatchObject({
      code: 'GRAPH_INVALID',
      message: expect.stringMatching(/calls itself/),
    });
  });

  it('is linear: a long chain and a ladder of diamonds take milliseconds', async () => {
    const long = modelBytes(chain(50_000));
    const nodes = Array.from({ length: 10_000 }, (_, i) => ({
      op: 'Add',
      inputs: [`t${i}`, `t${i}`],
      outputs: [`t${i + 1}`],
    }));
    const ladder = modelBytes({ inputs: ['t0'], outputs: ['t10000'], nodes });
    expect((await pruneModel(long, ['t49999'])).plan.kept.nodes).toHaveLength(49_999);
    expect((await pruneModel(ladder, ['t9999'])).plan.kept.nodes).toHaveLength(9_999);
  });

  it('resolves and lists names of a large graph without quadratic work', async () => {
    const length = 20_000;
    const nodes = Array.from({ length }, (_, i) => ({
      op: 'Relu',
      name: `/Relu_${i}`,
      inputs: [`t${i}`],
      outputs: [`t${i + 1}`],
    }));
    const model = await openModel(modelBytes({ inputs: ['t0'], outputs: [`t${length}`], nodes }));
    expect(model.nodes.filter(({ request }) => request !== null)).toHaveLength(length);
  });
});

describe('hostile and odd graphs', () => {
  it('may be wide: one node with 200,000 inputs', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['y'],
      nodes: [
        { op: 'Sum', inputs: Array.from({ length: 200_000 }, () => 'a'), outputs: ['y'] },
        { op: 'Max', inputs: Array.from({ length: 200_000 }, (_, i) => `i${i}`), outputs: ['z'] },
      ],
    };
    expect((await prune(spec, ['y'])).plan.kept.nodes).toEqual(['Sum → y']);
    expect(await failureOf(prune(spec, ['z']))).toMatchObject({ code: 'GRAPH_INVALID' });
  });

  it('may have names with huge numbers, or modules nested without end', async () => {
    for (const name of ['/conv300000000/Relu', '/conv99999999999/Relu', `/${'a/'.repeat(30_000)}Relu`]) {
      const model = await openModel(
        modelBytes({
          inputs: ['x'],
          outputs: ['y'],
          nodes: [{ op: 'Relu', name, inputs: ['x'], outputs: ['y'] }],
        }),
      );
      expect(model.nodes[0]?.request).toBeTruthy();
    }
  });

  it('may have many outputs, or one tensor computed many times', async () => {
    const outputs = Array.from({ length: 20_000 }, (_, i) => `o${i}`);
    const split = await openModel(
      modelBytes({ inputs: ['x'], outputs, nodes: [{ op: 'Split', name: 's', inputs: ['x'], outputs }] }),
    );
    expect(split.nodes[0]?.request).toBeTruthy();
    const nodes = Array.from({ length: 20_000 }, () => ({ op: 'Relu', inputs: ['x'], outputs: ['y'] }));
    const error = await failureOf(prune({ inputs: ['x'], outputs: ['y'], nodes }, ['tensor:y']));
    expect(error.message.length).toBeLessThan(300);
  });

  it('may be out of order: a module is what runs last in it', async () => {
    const spec: GraphSpec = {
      inputs: ['x'],
      outputs: ['y'],
      nodes: [
        { op: 'Neg', name: '/m/n2/Neg', inputs: ['a'], outputs: ['y'] },
        { op: 'Relu', name: '/m/n1/Relu', inputs: ['x'], outputs: ['a'] },
      ],
    };
    const model = await openModel(modelBytes(spec));
    expect(model.nodes.map(({ request }) => request)).toEqual(['m.n1', 'm.n2']);
    expect((await pruneModel(model, ['m'])).plan.resolved[0]?.tensor).toBe('y');
  });

  it('may use the name of the node that tapir adds', async () => {
    const spec: GraphSpec = {
      inputs: ['x'],
      outputs: ['y'],
      nodes: [{ op: 'Relu', name: 'tapir/Identity/k', inputs: ['x'], outputs: ['y'] }],
    };
    const model = await openModel(await (await prune(spec, { y: 'k' })).bytes());
    expect(new Set(model.nodes.map(({ name }) => name)).size).toBe(2);
  });
});

describe('pruneModel refuses', () => {
  it('a needed tensor that nothing defines', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['y'],
      nodes: [{ op: 'Add', name: 'n', inputs: ['a', 'ghost'], outputs: ['y'] }],
    };
    expect(await failureOf(prune(spec, ['y']))).toMatchObject({
      code: 'GRAPH_INVALID',
      message: expect.stringMatching(/nothing defines tensor "ghost", which "n" reads/),
    });
  });

  it('a circle, but only where it is needed', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['y'],
      nodes: [
        { op: 'Relu', inputs: ['a'], outputs: ['free'] },
        { op: 'Add', name: 'p', inputs: ['a', 'v'], outputs: ['u'] },
        { op: 'Relu', name: 'q', inputs: ['u'], outputs: ['v'] },
        { op: 'Relu', inputs: ['v'], outputs: ['y'] },
      ],
    };
    expect(await failureOf(prune(spec, ['y']))).toMatchObject({
      code: 'GRAPH_INVALID',
      message: expect.stringMatching(/in a circle/),
    });
    expect((await prune(spec, ['free'])).plan.kept.nodes).toEqual(['Relu → free']);
  });

  it('a tensor that is computed twice', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['y'],
      nodes: [
        { op: 'Relu', name: 'p', inputs: ['a'], outputs: ['y'] },
        { op: 'Relu', name: 'q', inputs: ['a'], outputs: ['y'] },
      ],
    };
    expect(await failureOf(prune(spec, ['tensor:y']))).toMatchObject({
      code: 'GRAPH_INVALID',
      message: expect.stringMatching(/"p" and "q"/),
    });
  });

  it('a blank output of Split, which crashes ONNX Runtime', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['q'],
      nodes: [{ op: 'Split', inputs: ['a'], outputs: ['', 'q'] }],
    };
    expect(await failureOf(prune(spec, ['q']))).toMatchObject({
      code: 'GRAPH_INVALID',
      message: expect.stringMatching(/blank output/),
    });
  });

  it('outputs that are no tensors, unless they are allowed', async () => {
    const spec: GraphSpec = {
      inputs: ['a'],
      outputs: ['z'],
      nodes: [
        { op: 'SequenceConstruct', inputs: ['a'], outputs: ['s'] },
        { op: 'SequenceLength', inputs: ['s'], outputs: ['z'] },
      ],
    };
    expect(await failureOf(prune(spec, ['s']))).toMatchObject({
      code: 'OUTPUT_NOT_TENSOR',
      details: { output: 's', type: 'sequence' },
    });
    await expect(pruneModel(modelBytes(spec), ['s'], { allowNonTensor: true })).resolves.toBeDefined();
  });

  it('a key that names another kept tensor, also inside a body', async () => {
    expect(await failureOf(prune(chain(3), { t2: 't1' }))).toMatchObject({
      code: 'OUTPUT_NAME_TAKEN',
      details: { key: 't1' },
    });
    await expect(prune(chain(3), { t1: 't2' })).resolves.toBeDefined(); // t2 is dropped.
    const body: GraphSpec = { outputs: ['o'], nodes: [{ op: 'Relu', inputs: ['a'], outputs: ['o'] }] };
    const spec: GraphSpec = {
      inputs: ['a', 'c'],
      outputs: ['y'],
      nodes: [{ op: 'If', inputs: ['c'], outputs: ['y'], bodies: { then_branch: body, else_branch: body } }],
    };
    expect(await failureOf(prune(spec, { y: 'o' }))).toMatchObject({ code: 'OUTPUT_NAME_TAKEN' });
  });

  it.each([
    [[]],
    [{}],
    ['t1'],
    [null],
    [[1]],
    [['']],
    [{ t1: '' }],
    [[['t1', '__proto__']]],
    [{ t1: 'k', t2: 'k' }],
    [[['t1', 'k', 'x']]],
  ])('the request %j', async (nodes) => {
    expect(await failureOf(prune(chain(3), nodes as unknown as ReturnNodes))).toMatchObject({
      code: 'OPTION_INVALID',
    });
  });
});

describe('tidy', () => {
  const spec: GraphSpec = {
    inputs: ['a'],
    outputs: ['y'],
    nodes: [
      { op: 'Relu', name: 'same', inputs: ['t'], outputs: ['y'] },
      { op: 'Neg', name: 'same', inputs: ['a'], outputs: ['t'] },
    ],
  };

  it('refuses kept nodes of one name, as ONNX Runtime does, and lets pruning cure it', async () => {
    const error = await failureOf(prune(spec, ['y']));
    expect(error.code).toBe('GRAPH_INVALID');
    expect(error.message).toContain('tidy');
    expect((await prune(spec, ['t'])).plan.kept.nodes).toEqual(['same']);
  });

  it('sorts nodes, gives them distinct names, and drops unused operator sets', async () => {
    const pruned = await pruneModel(modelBytes(spec), { y: 'out' }, { tidy: true });
    const { graph, opsets } = scanModel(memorySource(await pruned.bytes()));
    expect(graph.nodes.map(({ opType, name }) => [opType, name])).toEqual([
      ['Neg', 'same'],
      ['Relu', 'same_1'],
      ['Identity', 'tapir/Identity/out'],
    ]);
    expect([...opsets.keys()]).toEqual(['']);
  });
});

describe('names inside bodies', () => {
  it('say what comes out of there', async () => {
    const body: GraphSpec = {
      outputs: ['o'],
      nodes: [{ op: 'Relu', name: 'hidden', inputs: ['a'], outputs: ['o'] }],
    };
    const spec: GraphSpec = {
      inputs: ['a', 'c'],
      outputs: ['y'],
      nodes: [
        {
          op: 'If',
          name: 'choice',
          inputs: ['c'],
          outputs: ['y'],
          bodies: { then_branch: body, else_branch: body },
        },
      ],
    };
    const error = await failureOf(prune(spec, ['hidden']));
    expect(error).toMatchObject({
      code: 'NAME_INSIDE_BODY',
      details: { request: 'hidden', where: 'then_branch of If "choice"', outside: ['y'] },
    });
  });
});
