import { describe, expect, it } from 'vitest';
import { listHostNodes } from '../../../src/run/model/open/check-runnable.js';
import { differentiate } from '../../../src/learn/gradients/differentiate.js';
import { prunedInternals } from '../../../src/run/model/prune/pruned-model.js';
import { pruneModel } from '../../../src/run/model/oracle/prune-model.js';
import { modelBytes, type NodeSpec } from '../../support/graphs.js';

describe('nodes that a GPU provider claims and cannot run', () => {
  const pool = (name: string, input: string, ...outputs: string[]): NodeSpec => ({
    op: 'MaxPool',
    name,
    inputs: [input],
    outputs,
    ints: { kernel_shape: [2], strides: [2] },
  });
  const dims = ['n', 1, 16];
  const bytes = modelBytes({
    inputs: [{ name: 'x', dims }],
    outputs: [{ name: 'd', dims: ['n', 1, 1] }],
    nodes: [
      pool('plain', 'x', 'a'),
      pool('indexed', 'a', 'b', 'where'),
      pool('', 'b', 'c', 'nowhere'),
      pool('left out', 'c', 'd', ''),
    ],
  });

  it('are max pools with indices that have a name', async () => {
    const { rewrite } = prunedInternals.of(await pruneModel(bytes, ['d']));
    expect(listHostNodes(rewrite)).toEqual(['indexed']);
  });

  it('are among those that a gradient adds', async () => {
    const plain = modelBytes({
      inputs: [{ name: 'x', dims }],
      outputs: [{ name: 'y', dims: ['n', 1, 8] }],
      nodes: [pool('plain', 'x', 'y')],
    });
    const gradients = await differentiate(plain, { of: ['y'], withRespectTo: ['x'] });
    expect(listHostNodes(prunedInternals.of(gradients).rewrite)).toEqual(['tapir/gradient/MaxPool']);
  });
});
