/** Options that onnxruntime would ignore in silence are refused, with the reason. */
import { describe, expect, it } from 'vitest';
import {
  cudaTexts,
  readSessionOptions,
  SESSION_DEFAULTS,
} from '../../../../src/run/runtime/lanes/session-options.js';
import { refusal } from '../../../support/refusal.js';

describe('session options', () => {
  it('are honoured by a binding, every one', () => {
    expect(Object.keys(SESSION_DEFAULTS)).toEqual([
      'graphOptimizationLevel',
      'executionMode',
      'interOpNumThreads',
      'enableCpuMemArena',
      'enableMemPattern',
      'logSeverityLevel',
      'extra',
      'cuda',
    ]);
    expect(readSessionOptions({ graphOptimizationLevel: undefined })).toEqual(SESSION_DEFAULTS);
  });

  it.each([
    ['freeDimensionOverrides', { batch: 1 }, /onnxruntime-node ignores it.*fixed dims/],
    ['logVerbosityLevel', 1, /ignores it; use logSeverityLevel/],
    ['enableGraphCapture', true, /CUDA graphs need/],
    ['enable_cuda_graph', true, /CUDA graphs need/],
    ['gpu_mem_limit', 1, /session\.cuda\.gpuMemLimit/],
    ['user_compute_stream', '1', /session\.cuda\.useTf32/],
    ['executionProviders', ['cuda'], /option device or devices/],
    ['intraOpNumThreads', 2, /threads in the device/],
    ['externalData', [], /beside the model/],
    ['graphOptimisationLevel', 'all', /did you mean "graphOptimizationLevel"\? It has/],
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
    { cuda: { gpuMemLimit: '1' } },
    { cuda: { enableCudaGraph: true } },
    { cuda: { cudnnConvAlgoSearch: 'heuristic' } },
    { cuda: 'fast' },
  ])('refuses %j', (given) =>
    expect(() => readSessionOptions(given as object)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID' }),
    ),
  );
});

describe('options of CUDA', () => {
  it('are texts by onnxruntime’s names, where they are not at their default', () => {
    expect(cudaTexts(SESSION_DEFAULTS)).toEqual({});
    expect(cudaTexts(readSessionOptions({ cuda: { useTf32: true, gpuMemLimit: undefined } }))).toEqual({});
    const cuda = {
      useTf32: false,
      preferNhwc: true,
      cudnnConvAlgoSearch: 'HEURISTIC',
      gpuMemLimit: 2 ** 33,
      arenaExtendStrategy: 'kSameAsRequested',
    } as const;
    expect(cudaTexts(readSessionOptions({ cuda }))).toEqual({
      use_tf32: '0',
      prefer_nhwc: '1',
      cudnn_conv_algo_search: 'HEURISTIC',
      gpu_mem_limit: '8589934592',
      arena_extend_strategy: 'kSameAsRequested',
    });
  });
});
