/** The corpus of graphs on OpenVINO: the values of ONNX Runtime within 1e-4 of their range, or a typed error. */
import { describe, it } from 'vitest';
import { checkEntry, runnable } from '../../../support/engine-corpus.js';
import { inCheck } from '../../../support/graphs.js';
import { hasOpenVino } from '../../../support/openvino.js';

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

describe.skipIf(!hasOpenVino)('the corpus on OpenVINO', () => {
  const place = {
    options: { engine: 'openvino' },
    tolerance: 1e-4,
    unreadable: UNREADABLE,
    chaotic: CHAOTIC,
  } as const;

  it.each(inCheck(runnable).map((entry) => [entry.name, entry] as const))('%s', (_, entry) =>
    checkEntry(entry, place),
  );
});
