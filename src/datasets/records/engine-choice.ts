/** Which engine and precision were chosen by measuring, and what was measured. */
import type { EngineName, Precision } from '../../run/runtime/capabilities/capabilities.js';
import type { Device } from '../../run/runtime/lanes/device.js';
import type { Float32Comparison } from './float32-comparison.js';

/** A way to run a model. */
export interface EngineCandidate {
  readonly engine: EngineName;
  /** As messages name it. */
  readonly device: string;
  /** Of a file in 8 bits, that of its rest. */
  readonly precision: Precision;
  /** Null where it cannot run here. */
  readonly imagesPerSecond: number | null;
  /** The least cosine to float32 of any output of the first images. */
  readonly cosine: number | null;
  /** The least share of the ten nearest neighbours among the first images that stay, of any output; null for fewer than twelve images. */
  readonly neighbours: number | null;
  /** The least share of the first images whose highest score is at the same class; null if no output has scores. */
  readonly top1: number | null;
  /** How much the memory of the process grew as it was opened and first run: roughly, and on a GPU the host's part. */
  readonly memoryBytes: number | null;
  /** Why it was not taken; null for the one that was. */
  readonly reason: string | null;
}

/** The way that was chosen. */
export interface EngineChoice {
  readonly engine: EngineName;
  readonly device: Device;
  readonly precision: Precision;
  /** What was measured; empty where a dataset had chosen before. */
  readonly candidates: readonly EngineCandidate[];
  /** The chosen way against float32 on the first images; null for float32. */
  readonly againstFloat32: Float32Comparison | null;
}
