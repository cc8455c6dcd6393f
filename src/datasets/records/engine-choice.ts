/** Which engine and precision were chosen by measuring, and what was measured. */
import type { EngineName, Precision } from '../../runtime/capabilities/capabilities.js';
import type { Float32Comparison } from './float32-comparison.js';

/** A way to run a model. */
export interface EngineCandidate {
  readonly engine: EngineName;
  /** Of a file in 8 bits, that of its rest. */
  readonly precision: Precision;
  /** Null where it cannot run here. */
  readonly imagesPerSecond: number | null;
  /** The least cosine to float32 of any output of the first images. */
  readonly cosine: number | null;
  /** Why it was not taken; null for the one that was. */
  readonly reason: string | null;
}

/** The way that was chosen. */
export interface EngineChoice {
  readonly engine: EngineName;
  readonly precision: Precision;
  /** What was measured; empty where a dataset had chosen before. */
  readonly candidates: readonly EngineCandidate[];
  /** The chosen way against float32 on the first images; null for float32. */
  readonly againstFloat32: Float32Comparison | null;
}
