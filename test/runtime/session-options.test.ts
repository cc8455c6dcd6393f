/** Options that onnxruntime-node would ignore in silence are refused, with the reason. */
import { describe, expect, it } from 'vitest';
import { readDevice } from '../../src/runtime/device.js';
import { readSessionOptions, SESSION_DEFAULTS } from '../../src/runtime/session-options.js';

/** What a call throws, as `CODE: message`. */
function refusal(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    const { code, message } = error as { code: string; message: string };
    return `${code}: ${message}`;
  }
  return 'nothing';
}

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
    ['gpu_mem_limit', 1, /hands only the device id to CUDA/],
    ['cudnn_conv_algo_search', 'HEURISTIC', /hands only the device id to CUDA/],
    ['executionProviders', ['cuda'], /option device or devices/],
    ['intraOpNumThreads', 2, /threads with the device/],
    ['externalData', [], /beside the model/],
    ['graphOptimisationLevel', 'all', /it has graphOptimizationLevel/],
    ['toString', 1, /it has graphOptimizationLevel/],
  ])('%s is refused', (key, value, why) => {
    const refused = refusal(() => readSessionOptions({ [key]: value } as object));
    expect(refused).toMatch(/^OPTION_INVALID: session has no option/);
    expect(refused).toMatch(why);
  });
});

describe('devices', () => {
  it.each([
    ['CUDA', /did you mean "cuda"\?/],
    ['CUDAExecutionProvider', /did you mean "cuda"\?/],
    ['CPUExecutionProvider', /did you mean "cpu"\?/],
    ['gpu', /: write "cuda" or "webgpu"/],
    ['TensorrtExecutionProvider', /it is not offered; write "cuda"/],
    ['wasm', /onnxruntime-node has none; write "cpu"/],
    ['cude', /got "cude"$/],
    [{ type: 'CUDA' }, /"device\.type".*did you mean "cuda"\?/],
    [{ name: 'cuda' }, /no field "name".*its type/],
    [{ type: 'cuda', deviceId: 1 }, /no field "deviceId".*its id/],
    [{ type: 'cuda', gpu_mem_limit: 1 }, /no field "gpu_mem_limit".*hands only the device id/],
    [['cuda'], /must be "cpu", "cuda"/],
    [{}, /"device\.type" must be/],
  ])('%j is refused', (given, why) => {
    const refused = refusal(() => readDevice('device', given));
    expect(refused).toMatch(/^OPTION_INVALID: /);
    expect(refused).toMatch(why);
  });
});
