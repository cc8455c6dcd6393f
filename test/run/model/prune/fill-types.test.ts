/** Types of outputs without a session: the operators' rules say what ONNX Runtime infers, and a session is asked only for the rest. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { openModel, pruneModel } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import type { Value } from '../../../../src/onnx/graph/graph.js';
import {
  openModel as openHere,
  type OnnxModel,
} from '../../../../build/modules/run/model/open/open-model.js';
import { modelInternals } from '../../../../build/modules/run/model/open/model-state.js';
import { inferAnew, inferTypes } from '../../../../build/modules/run/model/oracle/infer-types.js';
import { SessionHolder } from '../../../../build/modules/run/model/oracle/session-holder.js';
import { correctedType, typeFrom } from '../../../../build/modules/run/model/prune/feature-info.js';
import { readDerived } from '../../../../build/modules/run/model/prune/fill-types.js';
import { fixturePath, tinyResNet } from '../../../support/fixtures.js';
import { modelBytes, type GraphSpec } from '../../../support/graphs.js';

const files = ['graphs', 'stages', 'folding'].flatMap((folder) =>
  readdirSync(fixturePath(folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.onnx'))
    .map((name) => join(fixturePath(folder), name)),
);

/** A file that no session opens: damaged, without its weights, or with unsafe ones. */
const isFailure = (error: unknown): boolean =>
  ['SESSION_FAILED', 'EXTERNAL_DATA_UNSAFE', 'GRAPH_INVALID'].includes(
    (error as { readonly code: string }).code,
  );

/** At most so many computed values, from all depths. */
function sampleOf(model: OnnxModel, count: number): Value[] {
  const { graph } = modelInternals.of(model);
  const computed = [...graph.values.values()].filter(({ producer, initializer }) => producer && !initializer);
  const step = Math.max(1, computed.length / count);
  return computed.filter((_, i) => Math.floor(i / step) !== Math.floor((i - 1) / step)) as Value[];
}

/** A size that the file itself names as ONNX Runtime names open ones. */
const openSizes = (dims: readonly unknown[] | null | undefined): unknown =>
  dims?.map((size) => (typeof size === 'string' && size.startsWith('unk__') ? null : size));

describe('rules of operators', () => {
  it('give what a session infers, in the fixtures', async () => {
    const told = { derived: 0, asked: 0 };
    for (const file of files) {
      const model = await openHere(file).catch(() => undefined);
      if (!model) continue;
      const values = sampleOf(model, 6);
      const open = values.filter((value) => !typeFrom(value, undefined)?.dims);
      const derived = await readDerived(model, open);
      await using sessions = new SessionHolder(model);
      try {
        const inferred = await inferTypes(open, undefined, sessions);
        for (const value of open) {
          const [rule, session] = [derived.get(value), typeFrom(value, inferred.get(value))];
          told.asked += session ? 1 : 0;
          if (!rule || !session?.dims) continue;
          told.derived++;
          expect([rule.elemType, openSizes(rule.dims)], `${file} ${value.name}`).toEqual([
            session.elemType,
            openSizes(session.dims),
          ]);
        }
      } catch (error) {
        if (!isFailure(error)) throw error;
      }
    }
    expect(told.asked).toBeGreaterThan(20);
    expect(told.derived / told.asked).toBeGreaterThan(0.6);
  });

  it('correct a batch that the exporter traced as a session does', async () => {
    let corrected = 0;
    for (const file of files) {
      const model = await openHere(file).catch(() => undefined);
      const values = model ? sampleOf(model, 4).filter((value) => typeFrom(value, undefined)?.dims) : [];
      if (!model || values.length === 0) continue;
      const rules = await readDerived(model, values, true);
      await using sessions = new SessionHolder(model);
      const told = await inferAnew(values, sessions).catch((error: unknown) => {
        if (!isFailure(error)) throw error;
        return new Map<Value, never>();
      });
      for (const value of values) {
        const session = told.get(value);
        if (!rules.has(value) || !session) continue;
        corrected++;
        expect(openSizes(correctedType(value, rules.get(value))?.dims), `${file} ${value.name}`).toEqual(
          openSizes(correctedType(value, session)?.dims),
        );
      }
    }
    expect(corrected).toBeGreaterThan(20);
  });
});

/** NonZero has no rule: its sizes depend on the values. */
const graph: GraphSpec = {
  inputs: [{ name: 'x', dims: [2, 3, 8, 8] }],
  nodes: [
    { op: 'NonZero', inputs: ['x'], outputs: ['unknown'] },
    { op: 'Identity', inputs: ['unknown'], outputs: ['y'] },
  ],
  outputs: [{ name: 'y', dims: [4, 'k'], elemType: 7 }],
};

describe('pruneModel', () => {
  it('knows the size of its file at once where rules tell the types', async () => {
    const pruned = await pruneModel(await openModel(tinyResNet()), { layer2: 'features', fc: 'scores' });
    const { plan } = pruned;
    const bytes = await pruned.bytes();
    expect(pruned.plan).toBe(plan);
    expect(bytes.byteLength).toBe(plan.kept.bytes);
    const { outputs } = await openModel(bytes);
    expect(outputs.map(({ dims }) => dims)).toEqual([
      ['batch', 32, 8, 8],
      ['batch', 10],
    ]);
  });

  it('asks a session once, when the file is written, where no rule tells them', async () => {
    const pruned = await pruneModel(await openModel(modelBytes(graph)), ['unknown']);
    const before = pruned.plan;
    const bytes = await pruned.bytes();
    const after = pruned.plan;
    expect(after.kept.bytes).toBe(bytes.byteLength);
    expect(after.kept.bytes).toBeGreaterThan(before.kept.bytes);
    expect(await pruned.bytes()).toEqual(bytes);
    expect(pruned.plan).toBe(after);
    expect((await openModel(bytes)).outputs).toEqual([{ name: 'unknown', dtype: 'int64', dims: [4, null] }]);
  });
});
