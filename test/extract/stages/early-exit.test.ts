import { createFeatureExtractor, openModel, pruneModel, type Tensor } from 'onnx-tapir';
import { createEarlyExit, profileModel, type EarlyExit, type Until } from 'onnx-tapir/stages';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { seededImages } from '../../support/exports.js';
import { tinyResNet } from '../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../support/graphs.js';
import { stagesFacts, stagesModel, type KnownExits } from '../../support/stages.js';
import { scaledImages } from '../../support/exits.js';

const never: Until = () => false;

function softmaxRows({ dims, data }: Tensor): number[][] {
  const size = dims[1]!;
  return Array.from({ length: dims[0]! }, (_, row) => [
    ...(data as Float32Array).subarray(row * size, (row + 1) * size),
  ]);
}

describe.each(['exitnet', 'exitvit'])('early exits of %s', (name) => {
  const facts = stagesFacts<KnownExits>(name);
  const names = facts.exits.slice(0, -1);
  const input = scaledImages(facts.input);
  let early: EarlyExit<'logits'>;
  let full: Record<string, Tensor>;

  beforeAll(async () => {
    const exits = names.map((node) => ({ node, until: never }));
    early = await createEarlyExit(stagesModel(name), { final: 'logits' }, { exits });
    const extractor = await createFeatureExtractor(stagesModel(name), facts.exits);
    full = await extractor.run(input);
    await extractor.close();
  });
  afterAll(() => early.close());

  it.each(facts.cases.map((one) => [`${one.criterion} ${one.thresholds.join(', ')}`, one] as const))(
    'leaves rows by %s, each with the bits of the full run',
    async (_, known) => {
      const until = known.thresholds.map((threshold) => ({ [known.criterion]: threshold }) as Until);
      const { logits, exits } = await early.run(input, { until });
      expect(exits).toEqual(known.exit);
      const rows = softmaxRows(logits);
      const all = facts.exits.map((exit) => softmaxRows(full[exit]!));
      for (const [row, exit] of exits.entries()) {
        expect(rows[row]).toEqual(all[exit]![row]);
        expect(rows[row]!.indexOf(Math.max(...rows[row]!))).toBe(known.argmax[row]);
      }
    },
  );

  it('gives the known logits at every exit, and computes no further when stopped', async () => {
    const seen: number[] = [];
    for await (const { exit, logits } of early.anytime(input)) {
      const known = facts.logits[exit]!;
      const most = Math.max(...known.value.map(Math.abs));
      for (const [i, value] of known.value.entries())
        expect(Math.abs((logits.data as Float32Array)[i]! - value)).toBeLessThanOrEqual(1e-5 * most);
      seen.push(exit);
      if (exit === 1) break;
    }
    expect(seen).toEqual([0, 1]);
  });

  it('has stages that cost what the exits cost', async () => {
    const costs: number[] = [];
    for (const model of early.models)
      costs.push((await profileModel(await openModel(await model.bytes()))).total.macs ?? 0);
    const sums = costs.map((_, i) => costs.slice(0, i + 1).reduce((sum, cost) => sum + cost, 0));
    expect(sums).toEqual(facts.macs.up_to_exit);
  });

  it.each(facts.optional_outputs.map((one) => [one.request.join(', '), one] as const))(
    'computes for %s what that needs',
    async (_, known) => {
      const pruned = await pruneModel(stagesModel(name), known.request);
      const { total } = await profileModel(await openModel(await pruned.bytes()));
      expect(total.macs).toBe(known.macs);
      expect(total.parameters + total.buffers + total.constants).toBe(known.weights);
      const { initializers } = known;
      expect(
        typeof initializers === 'number'
          ? pruned.plan.kept.initializers.length
          : [...pruned.plan.kept.initializers].toSorted(),
      ).toEqual(initializers);
    },
  );

  it('fits thresholds to a budget', async () => {
    const until = await early.fit([input], { by: 'confidence', shares: [0.5, 0.25] });
    const { exits } = await early.run(input, { until });
    const left = [0, 1, 2].map((exit) => exits.filter((one) => one === exit).length);
    const rows = input.dims[0]!;
    expect(left).toEqual([rows / 2, rows / 4, rows / 4]);
  });

  it('gives the same over devices, and batch after batch', async () => {
    const { thresholds } = facts.cases[1]!;
    const exits = names.map((node, i) => ({ node, until: { confidence: thresholds[i]! } }));
    await using several = await createEarlyExit(
      stagesModel(name),
      { final: 'logits' },
      { exits, devices: ['cpu:0', 'cpu:1'], microBatch: 3 },
    );
    const one = await several.run(input);
    expect(one.exits).toEqual(facts.cases[1]!.exit);
    let batches = 0;
    for await (const result of several.map([input, input, input])) {
      expect(result).toEqual(one);
      batches++;
    }
    expect(batches).toBe(3);
  });
});

describe('createEarlyExit', () => {
  it('puts linear heads on nodes without logits', async () => {
    const weight = {
      dtype: 'float32',
      dims: [10, 16],
      data: Float32Array.from({ length: 160 }, (_, i) => Math.sin(i)),
    } as const;
    const bias = {
      dtype: 'float32',
      dims: [10],
      data: Float32Array.from({ length: 10 }, (_, i) => i / 10),
    } as const;
    const input: Tensor = {
      dtype: 'float32',
      dims: [3, 3, 64, 64],
      data: seededImages('head', [3, 3, 64, 64]),
    };
    await using early = await createEarlyExit(
      tinyResNet(),
      { fc: 'logits' },
      { exits: [{ node: 'layer1', head: { weight, bias, pool: 'avg' }, until: ({ index }) => index === 1 }] },
    );
    const { logits, exits } = await early.run(input);
    expect(exits).toEqual([1, 0, 1]);
    await using extractor = await createFeatureExtractor(
      tinyResNet(),
      { layer1: 'v', fc: 'logits' },
      { pool: { v: 'avg' } },
    );
    const { v, logits: full } = await extractor.run(input);
    const rows = softmaxRows(logits);
    expect(rows[0]).toEqual(softmaxRows(full!)[0]);
    const features = softmaxRows(v!)[1]!;
    for (const [i, value] of rows[1]!.entries()) {
      const expected = features.reduce(
        (sum, x, j) => sum + x * weight.data[i * features.length + j]!,
        bias.data[i]!,
      );
      expect(Math.abs(value - expected)).toBeLessThan(1e-4);
    }
  });

  it('recomputes sizes from the rows that are left', async () => {
    // "size" is computed in front of the exit, and read after it.
    const spec: GraphSpec = {
      inputs: [{ name: 'x', dims: ['n', 4] }],
      outputs: [{ name: 'y', dims: ['n', 4] }],
      initializers: { two: { dims: [2], values: [2, 2], elemType: 'int64' } },
      nodes: [
        { op: 'Relu', inputs: ['x'], outputs: ['a'] },
        { op: 'Shape', inputs: ['a'], outputs: ['size'] },
        { op: 'Reshape', inputs: ['a', 'size'], outputs: ['early'] },
        { op: 'Neg', inputs: ['early'], outputs: ['b'] },
        { op: 'Reshape', inputs: ['b', 'size'], outputs: ['y'] },
      ],
    };
    await using early = await createEarlyExit(
      modelBytes(spec),
      { y: 'logits' },
      { exits: [{ node: 'early', until: ({ logits }) => logits[0]! > 1 }] },
    );
    const x: Tensor = {
      dtype: 'float32',
      dims: [3, 4],
      data: Float32Array.of(1, 1, 1, 1, 2, 2, 2, 2, 0, 3, 3, 3),
    };
    const { logits, exits } = await early.run(x);
    expect(exits).toEqual([1, 0, 1]);
    expect([...logits.data]).toEqual([-1, -1, -1, -1, 2, 2, 2, 2, -0, -3, -3, -3]);
  });

  it('does not change the caller’s tensors, and reads options once', async () => {
    const data = seededImages('own', [2, 3, 64, 64]);
    const before = data.slice();
    const exits = [
      {
        node: 'layer2',
        head: { weight: { dims: [10, 32], data: new Float32Array(320) }, pool: 'avg' as const },
        until: { confidence: 2 },
      },
    ];
    await using early = await createEarlyExit(tinyResNet(), { fc: 'logits' }, { exits });
    exits[0]!.until.confidence = 0;
    exits.pop();
    const result = await early.run({ dtype: 'float32', dims: [2, 3, 64, 64], data });
    expect(result.exits).toEqual([1, 1]);
    expect(data).toEqual(before);
  });

  it('lets runs in flight finish when it is closed, and takes no others', async () => {
    const facts = stagesFacts<KnownExits>('exitnet');
    const exits = facts.exits.slice(0, -1).map((node) => ({ node, until: never }));
    const early = await createEarlyExit(stagesModel('exitnet'), { final: 'logits' }, { exits });
    const input = scaledImages(facts.input);
    const before = await early.run(input);
    const running = Promise.all([early.run(input), early.run(input), early.run(input)]);
    const closing = early.close();
    await expect(early.run(input)).rejects.toMatchObject({ code: 'CLOSED' });
    expect(await running).toEqual([before, before, before]);
    await closing;
  });

  it('stops when the signal fires', async () => {
    await using early = await createEarlyExit(
      stagesModel('exitnet'),
      { final: 'logits' },
      { exits: [{ node: 'exit1', until: never }] },
    );
    const input = scaledImages(stagesFacts<KnownExits>('exitnet').input);
    await expect(early.run(input, { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow(
      'enough',
    );
  });

  const exit = { node: 'exit1', until: never };
  it.each([
    [{ final: 'logits' }, { exits: [] }, 'OPTION_INVALID'],
    [{ final: 'logits' }, { exits: [{ node: 'exit1', until: { sure: 1 } }] }, 'OPTION_INVALID'],
    [
      { final: 'logits' },
      { exits: [{ node: 'exit1', until: { confidence: Number.NaN } }] },
      'OPTION_INVALID',
    ],
    [{ final: 'exits' }, { exits: [exit] }, 'OPTION_INVALID'],
    [{ final: 'a', exit2: 'b' }, { exits: [exit] }, 'OPTION_INVALID'],
    [{ final: 'logits' }, { exits: [{ node: 'exit9', until: never }] }, 'NAME_NOT_FOUND'],
    [{ final: 'logits' }, { exits: [exit], devices: [] }, 'OPTION_INVALID'],
    [
      { final: 'logits' },
      { exits: [{ ...exit, head: { weight: { dims: [3], data: new Float32Array(3) } } }] },
      'INPUT_MISMATCH',
    ],
  ])('refuses %j with %j', async (nodes, options, code) => {
    await expect(
      createEarlyExit(stagesModel('exitnet'), nodes as never, options as never),
    ).rejects.toMatchObject({ code });
  });

  it('refuses a head for another number of features', async () => {
    const head = { weight: { dims: [10, 7], data: new Float32Array(70) }, pool: 'avg' as const };
    const exits = [{ node: 'layer1', head, until: never }];
    await expect(createEarlyExit(tinyResNet(), ['fc'], { exits })).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
      message: expect.stringContaining('7 features'),
    });
  });

  it('refuses a head for other classes than those of the end, before a run', async () => {
    const head = { weight: { dims: [7, 16], data: new Float32Array(112) }, pool: 'avg' as const };
    const exits = [{ node: 'layer1', head, until: never }];
    await expect(createEarlyExit(tinyResNet(), ['fc'], { exits })).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
      message:
        "exit 0 gives [rows, 7], but the network's end gives [rows, 10]: each exit predicts the same classes; give the exit a head, or name a node with scores",
    });
  });

  it('refuses an exit that gives a map, although its sides are open', async () => {
    const open = modelBytes({
      inputs: [{ name: 'x', dims: ['rows', 3, 'height', 'width'] }],
      outputs: [{ name: 'y', dims: ['rows', 3] }],
      nodes: [
        { op: 'Relu', inputs: ['x'], outputs: ['map'] },
        { op: 'GlobalAveragePool', inputs: ['map'], outputs: ['pooled'] },
        { op: 'Flatten', inputs: ['pooled'], outputs: ['y'] },
      ],
    });
    await expect(
      createEarlyExit(open, ['y'], { exits: [{ node: 'map', until: never }] }),
    ).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
      message: expect.stringContaining("the network's end gives [rows, 3]: each exit predicts") as string,
    });
    await expect(createEarlyExit(open, ['y'], { exits: [{ node: 'map' } as never] })).rejects.toMatchObject({
      message: expect.stringContaining('"exits[0].until"') as string,
    });
  });

  it('refuses a graph whose batch is fixed, and tensors without rows after an exit', async () => {
    const nodes = (second: string): GraphSpec['nodes'] => [
      { op: 'Relu', inputs: ['x'], outputs: ['a'] },
      { op: 'ReduceMax', inputs: ['a'], outputs: ['most'] },
      { op: 'Sub', inputs: ['a', 'most'], outputs: ['early'] },
      { op: 'Neg', inputs: ['early'], outputs: ['b'] },
      { op: 'Add', inputs: ['b', second], outputs: ['y'] },
    ];
    const graph = (rows: number | string, second: string): Uint8Array =>
      modelBytes({
        inputs: [{ name: 'x', dims: [rows, 4] }],
        outputs: [{ name: 'y', dims: [rows, 4] }],
        nodes: nodes(second),
      });
    const exits = [{ node: 'early', until: never }];
    await expect(createEarlyExit(graph(8, 'a'), ['y'], { exits })).rejects.toMatchObject({
      code: 'SPLIT_IMPOSSIBLE',
      message: expect.stringContaining('8 rows at a time'),
    });
    await expect(createEarlyExit(graph('n', 'most'), ['y'], { exits })).rejects.toMatchObject({
      code: 'SPLIT_IMPOSSIBLE',
      message: expect.stringContaining('"most"'),
    });
  });
});
