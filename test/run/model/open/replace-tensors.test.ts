/** Edits with owners: which parameters share a tensor afterwards, and under which names. */
import { describe, expect, it } from 'vitest';
import { siteOf } from '../../../../src/onnx/graph/parameters/site.js';
import { modelInternals } from '../../../../src/run/model/open/model-state.js';
import { deriveModel, openModel } from '../../../../src/run/model/open/open-model.js';
import { replaceTensors } from '../../../../src/run/model/open/replace-tensors.js';
import { modelBytes } from '../../../support/graphs.js';

/** Three nodes that read one initializer. */
const model = (name: string): Uint8Array =>
  modelBytes({
    inputs: [{ name: 'x', dims: ['n', 2] }],
    outputs: [{ name: 'y', dims: ['n', 2] }],
    nodes: [
      { op: 'Add', inputs: ['x', name], outputs: ['s'] },
      { op: 'Mul', inputs: ['s', name], outputs: ['t'] },
      { op: 'Sub', inputs: ['t', name], outputs: ['y'] },
    ],
    initializers: { [name]: [0, 0] },
  });

/** What each node reads after edits: owners by node, with the bytes that are there. */
async function readsAfter(name: string, owners: readonly (string | undefined)[], isSame = true) {
  const opened = await openModel(model(name));
  const state = modelInternals.of(opened);
  const bytes = new Uint8Array(Float32Array.of(isSame ? 0 : 1, 0).buffer);
  const edits = owners.flatMap((owner, i) => {
    const site = siteOf(state.graph.nodes[i]!, 1)!;
    return owner === undefined ? [] : [{ site, name: owner, bytes, owner }];
  });
  const chunks = await replaceTensors(state, edits);
  const changed = chunks ? await deriveModel(opened, chunks) : opened;
  return modelInternals.of(changed).graph.nodes.map(({ inputs }) => inputs[1]!.name);
}

describe('owners', () => {
  it.each([
    ['have tensors of their own, also of equal bytes', ['a', 'b', 'c'], ['a', 'b', 'c'], 'a'],
    ['keep the tensor that has their name', ['a', 'b', 'c'], ['a', 'b', 'c'], 'c'],
    ['keep the first where none has it', ['a', 'b', 'c'], ['w', 'b', 'c'], 'w'],
    ['share a tensor among themselves', ['a', 'b', 'a'], ['a', 'b', 'a'], 'a'],
    ['leave the tensor to those that nobody owns', ['a', 'b', undefined], ['a', 'b', 'w'], 'w'],
  ])('%s', async (_, owners, expected, name) => {
    expect(await readsAfter(name, owners)).toEqual(expected);
    expect(await readsAfter(name, owners, false)).toEqual(expected);
  });
});
