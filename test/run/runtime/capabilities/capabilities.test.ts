/** What engines compute where: every combination, and the sentences of refusals. */
import { describe, expect, it } from 'vitest';
import type { TapirError } from '../../../../src/base/errors.js';
import {
  checkPrecision,
  ENGINES,
  PRECISIONS,
  type DeviceType,
  type EngineName,
  type Precision,
} from '../../../../src/run/runtime/capabilities/capabilities.js';

const DEVICES: readonly DeviceType[] = ['cpu', 'cuda', 'webgpu', 'auto'];

function whyNot(engine: EngineName, precision: Precision, type?: DeviceType): TapirError | undefined {
  try {
    checkPrecision(precision, engine, type && { type, name: `${type}:1` });
    return undefined;
  } catch (error) {
    return error as TapirError;
  }
}

describe('engines', () => {
  it('compute where they say', () => {
    const possible = ENGINES.flatMap((engine) =>
      PRECISIONS.flatMap((precision) =>
        DEVICES.filter((type) => !whyNot(engine, precision, type)).map((type) =>
          [engine, precision, type].join(' '),
        ),
      ),
    );
    expect(possible).toEqual([
      ...DEVICES.map((type) => `onnxruntime float32 ${type}`),
      ...DEVICES.map((type) => `onnxruntime float16 ${type}`),
      'onnxruntime int8 cpu',
      'openvino float32 cpu',
      'openvino bfloat16 cpu',
    ]);
  });

  it.each([
    [
      'onnxruntime',
      'bfloat16',
      undefined,
      'PRECISION_UNSUPPORTED',
      'precision "bfloat16" is not possible with engine "onnxruntime": ONNX Runtime computes in float32, float16, int8; choose engine "openvino", or precision "float32" or "float16" or "int8"',
    ],
    [
      'openvino',
      'int8',
      'cpu',
      'PRECISION_UNSUPPORTED',
      'precision "int8" is not possible with engine "openvino": OpenVINO computes in float32, bfloat16; choose engine "onnxruntime", or precision "float32" or "bfloat16"',
    ],
    [
      'onnxruntime',
      'int8',
      'cuda',
      'PRECISION_UNSUPPORTED',
      'precision "int8" cannot be used: ONNX Runtime computes in it on cpu, not on cuda:1; choose device "cpu", or precision "float32" or "float16"',
    ],
    [
      'openvino',
      'float32',
      'webgpu',
      'ENGINE_UNSUPPORTED',
      'engine "openvino" cannot be used: it runs on cpu here, not on webgpu:1; choose device "cpu", or engine "onnxruntime"',
    ],
  ] as const)('%s refuses %s on %s', (engine, precision, type, code, message) => {
    expect(whyNot(engine, precision, type)).toMatchObject({ code, message });
  });
});
