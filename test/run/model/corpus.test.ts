/** Every file of the corpus: pruned, counted, run, and compared with the full graph's values bit for bit or as stated. */
import { cpSync, linkSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  createFeatureExtractor,
  isTapirError,
  openModel,
  pruneModel,
  type Tensor,
  type TensorLike,
} from 'onnx-tapir';
import { afterAll, describe, expect, it } from 'vitest';
import { ONE_CORE } from '../../support/cpu.js';
import { fixturePath, sharedFixtures } from '../../support/fixtures.js';
import { inCheck, readCorpus, readValue, type CorpusEntry, type Tap } from '../../support/graphs.js';
import { someOf } from '../../support/rounds.js';

const scratch = mkdtempSync(join(tmpdir(), 'tapir-corpus-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const source = sharedFixtures === undefined ? fixturePath('graphs') : join(sharedFixtures, 'graphs');
const corpus = readCorpus(source);
// A copy, because one case needs a hard link that git cannot carry.
cpSync(join(source, 'generated'), join(scratch, 'generated'), { recursive: true });
linkSync(join(scratch, 'generated/outside/secret.bin'), join(scratch, 'generated/external/hard.bin'));

const fileOf = (entry: CorpusEntry): string =>
  join(entry.file.startsWith('generated') ? scratch : source, entry.file);
const session = { graphOptimizationLevel: 'disabled' } as const;

/** Float tensors may differ in the last bits on another processor; all else is equal. */
function expectEqual(actual: Tensor, expected: TensorLike, name: string): void {
  expect(actual.dims, name).toEqual(expected.dims);
  const isFloat = actual.dtype === 'float32' || actual.dtype === 'float64';
  if (!isFloat) {
    expect([...actual.data], name).toEqual([...expected.data]);
    return;
  }
  const [a, b] = [actual.data as Float32Array, expected.data as Float32Array];
  const off = a.findIndex(
    (value, i) => !Object.is(value, b[i]) && !(Math.abs(value - b[i]!) <= 1e-6 + 1e-5 * Math.abs(b[i]!)),
  );
  expect(off < 0 ? null : [name, off, a[off], b[off]]).toBeNull();
}

function expectSummary(actual: Tensor, tap: Tap['expected'][number]): void {
  expect(actual.dims, tap.name).toEqual(tap.shape);
  const data = Float64Array.from(
    actual.dtype === 'float16' ? fromFloat16(actual.data as Uint16Array) : (actual.data as Float32Array),
  );
  const mean = data.reduce((sum, value) => sum + value, 0) / data.length;
  const scale = Math.abs(tap.mean ?? 0) + (tap.std ?? 0) + 1e-6;
  expect(Math.abs(mean - (tap.mean ?? 0)) / scale, tap.name).toBeLessThan(1e-4);
  tap.first8?.forEach((value, i) =>
    expect(Math.abs(data[i]! - value), tap.name).toBeLessThanOrEqual(1e-6 + 1e-5 * Math.abs(value)),
  );
}

function fromFloat16(bits: Uint16Array): Float64Array {
  return Float64Array.from(bits, (half) => {
    const exponent = (half >> 10) & 0x1f;
    const mantissa = half & 0x3ff;
    const size = exponent === 0 ? mantissa * 2 ** -24 : (1024 + mantissa) * 2 ** (exponent - 25);
    return half & 0x8000 ? -size : size;
  });
}

const withTaps = corpus.filter((entry) => (entry.taps?.length ?? 0) > 0);

describe('corpus: cut graphs', () => {
  it.each(inCheck(withTaps))(
    '$name keeps exactly what is needed, with the full graph’s values',
    async (entry) => {
      const model = await openModel(fileOf(entry));
      const values = new Map(entry.inputs?.map((input) => [input.name, readValue(source, input.file)]));
      // A session takes longer than all else: of the parts, one in four runs in a check.
      const tried = new Set(someOf(entry.taps!, 4));
      for (const tap of entry.taps!) {
        const request = tap.request.map((name) => `tensor:${name}`);
        if (tap.expected.some((expected) => expected.dtype === 'not a tensor')) {
          await expect(createFeatureExtractor(model, request)).rejects.toMatchObject({
            code: 'OUTPUT_NOT_TENSOR',
          });
          continue;
        }
        const { kept } = (await pruneModel(model, request, { outputDtype: 'keep' })).plan;
        const counts = {
          nodes: kept.nodes.length,
          initializers: kept.initializers.length,
          functions: kept.functions.length,
        };
        expect(counts, request.join()).toEqual({
          nodes: tap.nodes,
          initializers: tap.initializers,
          functions: tap.functions,
        });
        expect(kept.inputs.toSorted()).toEqual([...tap.inputs].toSorted());
        if (!tried.has(tap)) continue;
        const extractor = await createFeatureExtractor(model, request, {
          device: ONE_CORE,
          session,
          outputDtype: 'keep',
        });
        const feeds = Object.fromEntries(extractor.inputs.map(({ name }) => [name, values.get(name)!]));
        const results = await extractor.run(feeds);
        for (const expected of tap.expected) {
          const actual = results[`tensor:${expected.name}`]!;
          expect(actual.dtype).toBe(expected.dtype);
          if (expected.file === null) expectSummary(actual, expected);
          else expectEqual(actual, readValue(source, expected.file), expected.name);
        }
        await extractor.close();
      }
    },
  );

  const loading = corpus.filter((entry) => entry.ort?.loads === true && entry.policy === undefined);
  it.each(someOf(loading, 3))(
    '$name: all of its outputs give a model that the runtime loads, or a typed refusal',
    async (entry) => {
      const model = await openModel(fileOf(entry));
      const names = model.outputs.map(({ name }) => `tensor:${name}`);
      if (names.length === 0) return; // A graph without outputs has nothing to ask for.
      try {
        await (
          await createFeatureExtractor(model, names, { device: ONE_CORE, session, outputDtype: 'keep' })
        ).close();
      } catch (error) {
        expect(isTapirError(error, 'OUTPUT_NOT_TENSOR'), String(error)).toBe(true);
      }
    },
  );
});

describe('corpus: files that the runtime refuses', () => {
  const refused = corpus.filter((entry) => entry.ort?.loads === false || entry.policy !== undefined);

  it.each(refused)('$name ends in a typed error or in a part that runs', async (entry) => {
    try {
      const model = await openModel(fileOf(entry));
      const pruned = await pruneModel(
        model,
        model.outputs.map(({ name }) => `tensor:${name}`),
      );
      expect(pruned.plan.kept.bytes).toBeGreaterThan(0);
      const extractor = await createFeatureExtractor(
        model,
        model.outputs.map(({ name }) => `tensor:${name}`),
        { outputDtype: 'keep' },
      );
      await extractor.close();
    } catch (error) {
      expect(isTapirError(error), String(error)).toBe(true);
    }
  });

  it.each([
    ['malformed_deep_nest_200', 'MODEL_MALFORMED'],
    ['malformed_deep_nest_60', 'MODEL_MALFORMED'],
    ['malformed_empty', 'MODEL_MALFORMED'],
    ['malformed_field0', 'MODEL_MALFORMED'],
    ['malformed_garbage', 'MODEL_MALFORMED'],
    ['malformed_len_overflow', 'MODEL_MALFORMED'],
    ['malformed_text', 'MODEL_MALFORMED'],
    ['malformed_trunc_last', 'MODEL_MALFORMED'],
    ['ort_behaviour_no_ir', 'MODEL_MALFORMED'],
    ['ort_behaviour_cycle', 'GRAPH_INVALID'],
    ['ort_behaviour_split_blank_variadic', 'GRAPH_INVALID'],
    ['external_abs', 'EXTERNAL_DATA_UNSAFE'],
    ['external_traverse', 'EXTERNAL_DATA_UNSAFE'],
    ['external_hardlink', 'EXTERNAL_DATA_UNSAFE'],
    ['external_missing', 'EXTERNAL_DATA_UNSAFE'],
    ['external_len_long', 'SESSION_FAILED'],
    ['ort_behaviour_opset99', 'SESSION_FAILED'],
  ])('%s is %s', async (name, code) => {
    const entry = corpus.find((item) => item.name === name)!;
    const attempt = async (): Promise<void> => {
      const model = await openModel(fileOf(entry));
      await createFeatureExtractor(
        model,
        model.outputs.map((output) => `tensor:${output.name}`),
        { outputDtype: 'keep' },
      );
    };
    await expect(attempt()).rejects.toMatchObject({ code });
  });
});
