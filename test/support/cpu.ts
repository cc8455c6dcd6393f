/** The CPU of the tests: what it computes exactly, and how much of it a file takes. */
import { arch } from 'node:os';
import { listCpuFlags } from '../../src/run/runtime/cpu-features.js';

/**
 * Whether ONNX Runtime adds products of 8-bit numbers exactly: on x64 without VNNI, its kernel adds pairs of them in 16 bits, which overflow
 * (docs/decisions/040-int8.md). Tests that compare with exact sums are skipped otherwise, and announce.ts says so.
 */
export const addsInt8Exactly: boolean =
  arch() !== 'x64' || listCpuFlags().some((flag) => flag.includes('vnni') || flag === 'amx_int8');

/** For whole networks: two files of tests run at once, and sessions on all cores take them from each other (1.6 times as long). */
export const ONE_CORE = { type: 'cpu', threads: 1 } as const;
