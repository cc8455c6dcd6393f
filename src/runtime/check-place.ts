/** Whether an engine computes in a precision on a device. */
import { TapirError } from '../base/errors.js';
import { deviceName, type ResolvedDevice } from './lanes/device.js';
import { checkPrecision, type EngineName, type Precision } from './lanes/lane-options.js';

/**
 * Checks that an engine runs on a device, and computes in a precision there.
 *
 * @throws {@link TapirError} `ENGINE_UNSUPPORTED`; `PRECISION_UNSUPPORTED`.
 */
export function checkPlace(engine: EngineName, precision: Precision, device: ResolvedDevice): void {
  checkPrecision(precision, engine);
  if (precision === 'int8' && device.type !== 'cpu') {
    const reason = `its kernels for products of 8 bits are for CPUs, not for ${deviceName(device)}`;
    throw new TapirError(
      'PRECISION_UNSUPPORTED',
      `precision "int8" cannot be used: ${reason}; choose device "cpu", or precision "float16"`,
      { details: { precision, engine, reason } },
    );
  }
  if (engine === 'onnxruntime' || device.type === 'cpu') return;
  const reason = `it runs on the CPU here, not on ${deviceName(device)}`;
  throw new TapirError(
    'ENGINE_UNSUPPORTED',
    `engine "openvino" cannot be used: ${reason}; choose device "cpu", or engine "onnxruntime"`,
    { details: { engine, operators: [], reason } },
  );
}
