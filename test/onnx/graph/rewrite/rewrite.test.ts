/** Initializers that become inputs. */
import { expect, it } from 'vitest';
import { cutGraph } from '../../../../src/onnx/graph/rewrite/prune.js';
import { feedInitializers, startRewrite } from '../../../../src/onnx/graph/rewrite/rewrite.js';
import { modelInternals } from '../../../../src/run/model/open/model-state.js';
import { openModel } from '../../../../src/run/model/open/open-model.js';
import { deriveRewritten } from '../../../../src/run/model/prune/derive-rewritten.js';
import { modelBytes } from '../../../support/graphs.js';

it('are read no more, and those that the cut lacks stay away', async () => {
  const bytes = modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2] }],
    outputs: [
      { name: 'y', dims: ['n', 2] },
      { name: 'z', dims: ['n', 2] },
    ],
    nodes: [
      { op: 'Add', inputs: ['x', 'a'], outputs: ['s'] },
      { op: 'Mul', inputs: ['s', 'b'], outputs: ['y'] },
      { op: 'Mul', inputs: ['x', 'c'], outputs: ['z'] },
    ],
    initializers: { a: [1, 2], b: [3, 4], c: [5, 6] },
  });
  const model = await openModel(bytes);
  const { graph } = modelInternals.of(model);
  const output = { request: 'y', key: 'y', value: graph.values.get('y')!, why: 'test' };
  const started = startRewrite(cutGraph(graph, { outputs: [output] }));
  const fed = feedInitializers(
    started,
    ['a', 'c'].map((name) => graph.values.get(name)!),
  );
  const derived = await deriveRewritten(model, fed, 'tensors');
  expect(derived.inputs).toEqual([
    { name: 'x', dtype: 'float32', dims: ['n', 2] },
    { name: 'a', dtype: 'float32', dims: [2] },
  ]);
  const { values } = modelInternals.of(derived).graph;
  expect(['a', 'b', 'c'].filter((name) => values.get(name)?.initializer)).toEqual(['b']);
  // The rewrite that was given is as before.
  expect(started.inputs).toEqual([]);
});
