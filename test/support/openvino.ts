/** OpenVINO in tests: announce.ts looks for its libraries before the tests and names them in OPENVINO_LIBS. */
import { listCpuFlags } from '../../src/run/runtime/cpu-features.js';

/** Whether OpenVINO is here. Tests that need it are skipped otherwise, and announce.ts says so. */
export const hasOpenVino = (process.env['OPENVINO_LIBS'] ?? '') !== '';

/** Whether this CPU computes in bfloat16. */
export const hasBfloat16: boolean =
  hasOpenVino && listCpuFlags().some((flag) => flag === 'amx_bf16' || flag === 'avx512_bf16');
