/** The corpus of graphs on OpenVINO: the values of ONNX Runtime within 1e-4 of their range, or a typed error. */
import { join } from 'node:path';
import { createFeatureExtractor, isTapirError, type Tensor, type TensorLike } from 'onnx-tapir';
import { describe, expect, it } from 'vitest';
import { fixturePath, sharedFixtures } from '../../support/fixtures.js';
import { readCorpus, readValue, type CorpusEntry, type Tap } from '../../support/graphs.js';
import { hasOpenVino } from '../../support/openvino.js';

const source = sharedFixtures === undefined ? fixturePath('graphs') : join(sharedFixtures, 'graphs');
const TOLERANCE = 1e-4;

/** What OpenVINO cannot read: the code of the error, by the name of the entry. All else must run. */
const UNREADABLE: Readonly<Record<string, string>> = {
  // Operators without a conversion rule.
  extract_functions_nested: 'ENGINE_UNSUPPORTED',
  extract_scan_capture: 'ENGINE_UNSUPPORTED',
  ort_behaviour_optional_out_untyped: 'ENGINE_UNSUPPORTED',
  test_training_dropout_mask: 'ENGINE_UNSUPPORTED',
  test_model_with_fullonnxdomain: 'ENGINE_UNSUPPORTED',
  // Each body inside another doubles the time of compiling.
  malformed_deep_nest_20: 'ENGINE_UNSUPPORTED',
  // Inputs that its rules ignore.
  test_lstm_with_peepholes: 'ENGINE_UNSUPPORTED',
  test_sequence_model1: 'ENGINE_UNSUPPORTED',
  // Sparse initializers.
  extract_sparse_initializer: 'SESSION_FAILED',
  sparse_nnz: 'SESSION_FAILED',
};

/** A softmax of logits around 1e10, which made-up weights give: their last bits decide which class gets everything. */
const CHAOTIC: ReadonlySet<string> = new Set(['light_squeezenet softmaxout_1']);

/** Float tensors may differ by a share of their range; all else is equal. */
function expectNear(actual: Tensor, expected: TensorLike, name: string): void {
  expect(actual.dims, name).toEqual(expected.dims);
  const [a, b] = [
    Array.from(actual.data as Iterable<unknown>),
    Array.from(expected.data as Iterable<unknown>),
  ];
  if (!['float32', 'float64'].includes(actual.dtype)) {
    if (actual.dtype !== 'float16') expect(a, name).toEqual(b);
    return;
  }
  const range = Math.max(...b.map((value) => Math.abs(value as number)).filter(Number.isFinite), 0);
  const off = a.findIndex((value, i) => {
    const [x, y] = [value as number, b[i] as number];
    return !Object.is(x, y) && x !== y && !(Math.abs(x - y) <= TOLERANCE * range);
  });
  expect(off < 0 ? null : [name, off, a[off], b[off]]).toBeNull();
}

const runnable = readCorpus(source).filter(
  ({ ort, taps, inputs }) =>
    ort?.loads === true && taps !== undefined && inputs?.every(({ dtype }) => dtype !== 'string') === true,
);

/**
 * What to cut an entry to: its largest part, and all others in one. A part on its own has its operators fused up to its outputs; in
 * the second one every value is an output.
 */
function groupTaps(taps: readonly Tap[]): (readonly Tap[])[] {
  const [largest, ...others] = taps
    .filter((tap) => tap.expected.every(({ file }) => typeof file === 'string'))
    .toSorted((a, b) => b.nodes - a.nodes);
  return [[largest], others].filter((group): group is Tap[] => group.length > 0 && group[0] !== undefined);
}

async function checkTaps(name: string, entry: CorpusEntry, taps: readonly Tap[]): Promise<void> {
  const request = [...new Set(taps.flatMap((tap) => tap.request))];
  const opening = createFeatureExtractor(join(source, entry.file), request, {
    engine: 'openvino',
    outputDtype: 'keep',
  });
  const extractor = await opening.catch((error: unknown) => error);
  if (isTapirError(extractor)) {
    // Which of the parts is it?
    if (taps.length > 1) for (const tap of taps) await checkTaps(name, entry, [tap]);
    // What no engine gives out is refused in the same words.
    else if (!['OUTPUT_NOT_TENSOR', 'NAME_AMBIGUOUS'].includes(extractor.code))
      expect(extractor, extractor.message).toMatchObject({ code: UNREADABLE[name] });
    return;
  }
  await using open = extractor as Awaited<typeof opening>;
  const given = new Map(entry.inputs!.map((input) => [input.name, input.file]));
  const outputs: Record<string, Tensor> = await open.run(
    Object.fromEntries(open.inputs.map((input) => [input.name, readValue(source, given.get(input.name)!)])),
  );
  for (const expected of taps.flatMap((tap) => tap.expected))
    if (!CHAOTIC.has(`${name} ${expected.name}`))
      expectNear(outputs[expected.name]!, readValue(source, expected.file!), expected.name);
}

describe.skipIf(!hasOpenVino)('the corpus on OpenVINO', () => {
  it.each(runnable.map((entry) => [entry.name, entry] as const))('%s', async (name, entry) => {
    for (const taps of groupTaps(entry.taps!)) await checkTaps(name, entry, taps);
  });
});
