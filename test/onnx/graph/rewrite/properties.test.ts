/** Laws of pruning, on the corpus and on random graphs. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { isTapirError } from '../../../../src/base/errors.js';
import { openModel } from '../../../../src/run/model/open/open-model.js';
import { pruneModel } from '../../../../src/run/model/oracle/prune-model.js';
import type { PrunedModel } from '../../../../src/run/model/prune/pruned-model.js';
import { fixturePath, sharedFixtures } from '../../../support/fixtures.js';
import { modelBytes, readCorpus, type GraphSpec } from '../../../support/graphs.js';
import { rounds } from '../../../support/rounds.js';

const source = sharedFixtures === undefined ? fixturePath('graphs') : join(sharedFixtures, 'graphs');
const corpus = readCorpus(source).filter((entry) => (entry.taps?.length ?? 0) > 0);

/** With types, a session is opened for each cut: that is for the corpus. */
let fillTypes = true;
const prune = (bytes: Uint8Array, names: readonly string[]): Promise<PrunedModel> =>
  pruneModel(
    bytes,
    names.map((name) => `tensor:${name}`),
    { allowNonTensor: true, keepTensorNames: true, fillTypes },
  );

async function expectIdempotent(bytes: Uint8Array, names: readonly string[]): Promise<void> {
  const once = await (await prune(bytes, names)).bytes();
  const twice = await (await prune(once, names)).bytes();
  expect(Buffer.compare(once, twice), names.join()).toBe(0);
}

async function expectUnion(bytes: Uint8Array, a: readonly string[], b: readonly string[]): Promise<void> {
  const nodesOf = async (names: readonly string[]): Promise<readonly string[]> =>
    (await prune(bytes, [...new Set(names)])).plan.kept.nodes;
  const both = await nodesOf([...a, ...b]);
  expect(new Set(both)).toEqual(new Set([...(await nodesOf(a)), ...(await nodesOf(b))]));
}

/** Graphs without dead parts that were seen: the law must have had something to say. */
let whole = 0;

describe('corpus', () => {
  it.each(corpus)('$name: pruning what was pruned changes nothing, and parts add up', async (entry) => {
    const bytes = readFileSync(join(source, entry.file));
    const requests = entry.taps!.slice(0, 6).map((tap) => tap.request);
    for (const request of requests) await expectIdempotent(bytes, request);
    await expectUnion(bytes, requests[0]!, requests.at(-1)!);
  });

  it.each(corpus)('$name: all outputs of a graph without dead parts give its bytes', async (entry) => {
    const bytes = readFileSync(join(source, entry.file));
    const model = await openModel(bytes);
    try {
      const names = model.outputs.map(({ name }) => name);
      if (names.length === 0 || new Set(names).size < names.length) return;
      const pruned = await prune(bytes, names);
      const { nodes, initializers, inputs, functions } = pruned.plan.dropped;
      const isWhole = [nodes, initializers, inputs, functions].every((list) => list.length === 0);
      if (!isWhole) return;
      whole++;
      expect(Buffer.compare(await pruned.bytes(), bytes)).toBe(0);
    } catch (error) {
      expect(isTapirError(error, 'GRAPH_INVALID'), String(error)).toBe(true);
    }
  });
});

describe('corpus, in all', () => {
  it('holds graphs without dead parts', () => {
    expect(whole).toBeGreaterThan(corpus.length / 3);
  });
});

/** A graph whose k-th node reads some of what stands before it, in a body now and then. */
const graphs = fc
  .array(fc.record({ reads: fc.array(fc.nat(), { minLength: 1, maxLength: 3 }), isBody: fc.boolean() }), {
    minLength: 2,
    maxLength: 24,
  })
  .map((shapes): GraphSpec => {
    const known = ['x', 'c', 'w'];
    const nodes = shapes.map(({ reads, isBody }, k) => {
      const inputs = reads.map((read) => known[read % known.length]!);
      const output = `t${k}`;
      known.push(output);
      const body = { outputs: [`in${k}`], nodes: [{ op: 'Sum', inputs, outputs: [`in${k}`] }] };
      return isBody
        ? {
            op: 'If',
            name: `n${k}`,
            inputs: ['c'],
            outputs: [output],
            bodies: { then_branch: body, else_branch: body },
          }
        : { op: 'Sum', name: `n${k}`, inputs, outputs: [output] };
    });
    return { inputs: ['x', 'c'], outputs: [known.at(-1)!], initializers: { w: [1] }, nodes };
  });

/** What a value needs, the plain way: every name that occurs in a node or its bodies. */
function needed(spec: GraphSpec, names: readonly string[]): Set<string> {
  const found = new Set<string>();
  const visit = (name: string): void => {
    const node = spec.nodes.find(({ outputs }) => outputs.includes(name));
    if (!node || found.has(node.name!)) return;
    found.add(node.name!);
    for (const read of node.inputs ?? []) visit(read);
    for (const body of Object.values(node.bodies ?? {}))
      for (const inner of body.nodes) for (const read of inner.inputs ?? []) visit(read);
  };
  for (const name of names) visit(name);
  return found;
}

describe('random graphs', () => {
  beforeAll(() => {
    fillTypes = false;
  });

  it('keep exactly what is needed, twice the same, and add up', async () => {
    await fc.assert(
      fc.asyncProperty(graphs, fc.nat(), fc.nat(), async (spec, first, second) => {
        const bytes = modelBytes(spec);
        const pick = (k: number): string => spec.nodes[k % spec.nodes.length]!.outputs[0]!;
        const [a, b] = [pick(first), pick(second)];
        expect(new Set((await prune(bytes, [a])).plan.kept.nodes)).toEqual(needed(spec, [a]));
        await expectIdempotent(bytes, [...new Set([a, b])]);
        await expectUnion(bytes, [a], [b]);
      }),
      { numRuns: rounds(60, 200) },
    );
  });
});
