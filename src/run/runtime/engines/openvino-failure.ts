/** Explains why OpenVINO cannot open a model. */
import { TapirError } from '../../../base/errors.js';
import { deviceName, type ResolvedDevice } from '../lanes/device.js';
import type { OpenVinoError } from './native/openvino-api.js';

/** OpenVINO lists the operators that it has no rule for, and those whose rule fails. */
const NO_RULE = /No conversion rule found for operations: ([^\n]*?)(?= To facilitate| -- |$)/;
const RULE_FAILED = /Conversion is failed for: ([^\n]*?)(?= To facilitate| -- |$)/;

/** `ENGINE_UNSUPPORTED` if operators are missing, else `SESSION_FAILED`. */
export function openFailure(device: ResolvedDevice, error: OpenVinoError): TapirError {
  const operators = operatorsIn(error.message);
  if (operators.length > 0) {
    const reason = `it has no rule for ${operators.join(', ')}`;
    return new TapirError(
      'ENGINE_UNSUPPORTED',
      `OpenVINO cannot read the model: ${reason}; request a node before them, which prunes them away, or choose engine "onnxruntime"`,
      { details: { engine: 'openvino', operators, reason }, cause: error },
    );
  }
  const name = deviceName(device);
  return new TapirError(
    'SESSION_FAILED',
    `OpenVINO refuses the model on ${name}: ${error.message}; engine "onnxruntime" may read it`,
    { details: { device: name, reason: error.message }, cause: error },
  );
}

/** `ENGINE_UNSUPPORTED`: some conversion rules of OpenVINO drop inputs of operators, such as the peepholes of an LSTM. */
export function ignored(input: string): TapirError<'ENGINE_UNSUPPORTED'> {
  return cannotRun(`it would ignore the input "${input}"`, []);
}

/** `ENGINE_UNSUPPORTED`: what OpenVINO would compute wrongly without an error, because of an operator if one is named. */
export function cannotRun(reason: string, operators: readonly string[]): TapirError<'ENGINE_UNSUPPORTED'> {
  const cut = operators.length > 0 ? 'request a node before it, which prunes it away, or ' : '';
  return new TapirError(
    'ENGINE_UNSUPPORTED',
    `OpenVINO cannot run the model: ${reason}; ${cut}choose engine "onnxruntime"`,
    { details: { engine: 'openvino', operators, reason } },
  );
}

/** The operators that a message names, with their domains if they are not ONNX's own: `com.microsoft.Gelu`. */
export function operatorsIn(message: string): string[] {
  const listed = [NO_RULE, RULE_FAILED].flatMap((pattern) => pattern.exec(message)?.[1]?.split(',') ?? []);
  return [...new Set(listed.map((name) => name.trim().replace(/-\d+$/, '')))].filter((name) => name !== '');
}
