/** What is asked of sessions: one at a time, and none where the file says everything. */
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { openReplica } from '../../../../build/modules/run/runtime/replica.js';
import { tinyResNet } from '../../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';

/** Sessions that were opened, and how many of them were open at once at most. */
const sessions = { opened: 0, open: 0, most: 0 };
vi.mock(import('../../../../build/modules/run/runtime/replica.js'), async (importOriginal) => {
  const original = await importOriginal();
  const counted: typeof openReplica = async (...given) => {
    const replica = await original.openReplica(...given);
    sessions.opened++;
    sessions.most = Math.max(sessions.most, ++sessions.open);
    const close = replica.close.bind(replica);
    let closing: Promise<void> | undefined;
    replica.close = () => (closing ??= close().finally(() => void sessions.open--));
    return replica;
  };
  return { ...original, openReplica: counted };
});
const { describeFeatures, pruneModel, verifyModel } = await import('../../../../build/modules/index.js');
const { lowerPrecision } = await import('../../../../build/modules/products/precision/index.js');
beforeEach(() => void Object.assign(sessions, { opened: 0, open: 0, most: 0 }));

/** A graph that states no type but those of its inputs and outputs, for a fixed batch. */
const fixed: GraphSpec = {
  inputs: [{ name: 'x', dims: [2, 4] }],
  outputs: [{ name: 'y', dims: [2, 4] }],
  nodes: [
    { op: 'Neg', inputs: ['x'], outputs: ['a'] },
    { op: 'Reshape', inputs: ['a', 's'], outputs: ['b'] },
    { op: 'Relu', inputs: ['b'], outputs: ['y'] },
  ],
  initializers: { s: { dims: [2], values: [2, 4], elemType: 'int64' } },
};

const body: GraphSpec = { nodes: [{ op: 'Identity', inputs: ['x'], outputs: ['z'] }], outputs: ['z'] };
/** A graph with a value whose type no rule gives. */
const branches: GraphSpec = {
  inputs: [
    { name: 'x', dims: [2, 4] },
    { name: 'is', dims: [], elemType: 9 },
  ],
  outputs: [{ name: 'y', dims: [2, 4] }],
  nodes: [
    { op: 'If', inputs: ['is'], outputs: ['a'], bodies: { then_branch: body, else_branch: body } },
    { op: 'Mul', inputs: ['a', 'a'], outputs: ['y'] },
  ],
};

describe('a prune', () => {
  it('that needs no types starts no session', async () => {
    await pruneModel(tinyResNet(), { layer2: 'a', avgpool: 'b' }, { fillTypes: false });
    await pruneModel(tinyResNet(), { fc: 'a' }, { tidy: true, input: 'image-uint8' });
    await pruneModel(modelBytes(fixed), { y: 'norm' }, { l2Normalize: true });
    expect(sessions.opened).toBe(0);
  });

  it('that needs a type holds one at a time, and ends it', async () => {
    await pruneModel(modelBytes(branches), { a: 'v' }, { outputDtype: 'float16' });
    expect(sessions.opened).toBeGreaterThan(0);
    expect(sessions).toMatchObject({ open: 0, most: 1 });
  });

  it('to a dynamic batch holds one at a time, and ends the last one', async () => {
    const { plan } = await pruneModel(modelBytes(fixed), ['y'], { batch: 'dynamic', fillTypes: true });
    expect(plan.batch).toMatchObject({ mode: 'dynamic', exported: 2 });
    // Sizes; the graph as exported; the rewritten graph.
    expect(sessions).toEqual({ opened: 3, open: 0, most: 1 });
  });

  it('ends its session when it fails', async () => {
    await expect(pruneModel(modelBytes(branches), { a: 'v' }, { pool: 'avg' })).rejects.toMatchObject({
      code: 'OUTPUT_MISFIT',
    });
    expect(sessions.opened).toBeGreaterThan(0);
    expect(sessions).toMatchObject({ open: 0, most: 1 });
  });
});

describe('describeFeatures', () => {
  it('starts no session for stated types, and one for all others', async () => {
    await describeFeatures(modelBytes(fixed), ['y']);
    expect(sessions.opened).toBe(0);
    const info = await describeFeatures(modelBytes(fixed));
    expect(info.map(({ dims }) => dims)).toEqual([
      [2, 4],
      [2, 4],
      [2, 4],
      [2, 4],
    ]);
    expect(sessions).toEqual({ opened: 1, open: 0, most: 1 });
  });
});

describe('verifyModel', () => {
  it('opens the full graph, then the written bytes without optimisation and with it', async () => {
    const pruned = await pruneModel(modelBytes(fixed), { a: 'v' }, { outputDtype: 'float16' });
    Object.assign(sessions, { opened: 0, most: 0 });
    expect((await verifyModel(pruned)).isEqual).toBe(true);
    // The types that the prune looked up are not looked up again.
    expect(sessions).toEqual({ opened: 3, open: 0, most: 1 });
    await verifyModel(pruned, { graphOptimizationLevel: 'all' });
    expect(sessions).toEqual({ opened: 5, open: 0, most: 1 });
  });
});

describe('lowerPrecision', () => {
  it('ends the session that it asks for types', async () => {
    await lowerPrecision(modelBytes(branches), { precision: 'float16' });
    expect(sessions).toEqual({ opened: 1, open: 0, most: 1 });
  });
});
