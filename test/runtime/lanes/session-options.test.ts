/** Options that onnxruntime-node would ignore in silence are refused, with the reason. */
import { describe, expect, it } from 'vitest';
import { readSessionOptions, SESSION_DEFAULTS } from '../../../src/runtime/lanes/session-options.js';
import { refusal } from '../../support/refusal.js';

describe('session options', () => {
  it('are honoured by onnxruntime-node, every one', () => {
    expect(Object.keys(SESSION_DEFAULTS)).toEqual([
      'graphOptimizationLevel',
      'executionMode',
      'interOpNumThreads',
      'enableCpuMemArena',
      'enableMemPattern',
      'logSeverityLevel',
      'extra',
    ]);
    expect(readSessionOptions({ graphOptimizationLevel: undefined })).toEqual(SESSION_DEFAULTS);
  });

  it.each([
    ['freeDimensionOverrides', { batch: 1 }, /onnxruntime-node ignores it.*fixed dims/],
    ['logVerbosityLevel', 1, /ignores it; use logSeverityLevel/],
    ['enableGraphCapture', true, /ignores it: CUDA graphs/],
    ['gpu_mem_limit', 1, /passes only the device id to CUDA/],
    ['cudnn_conv_algo_search', 'HEURISTIC', /passes only the device id to CUDA/],
    ['executionProviders', ['cuda'], /option device or devices/],
    ['intraOpNumThreads', 2, /threads in the device/],
    ['externalData', [], /beside the model/],
    ['graphOptimisationLevel', 'all', /it has graphOptimizationLevel/],
    ['toString', 1, /it has graphOptimizationLevel/],
  ])('%s is refused', (key, value, why) => {
    const refused = refusal(() => readSessionOptions({ [key]: value } as object));
    expect(refused).toMatch(/^OPTION_INVALID: session has no option/);
    expect(refused).toMatch(why);
  });
});

describe('readSessionOptions', () => {
  it('copies, so that later changes of the caller’s object change nothing', () => {
    const extra = { session: { intra_op: { allow_spinning: '0' } } };
    const options = readSessionOptions({ extra });
    extra.session.intra_op.allow_spinning = '1';
    expect(options.extra).toEqual({ session: { intra_op: { allow_spinning: '0' } } });
  });

  it.each([
    { graphOptimizationLevel: 'most' },
    { freeDimensionOverrides: {} },
    { extra: { a: 1 } },
    { extra: [] },
    { interOpNumThreads: -1 },
    { enableMemPattern: 1 },
  ])('refuses %j', (given) =>
    expect(() => readSessionOptions(given as object)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    ),
  );
});
