/** Checkpoints whose content shows which step they belong to. */
import type { Checkpoint } from '../../src/learn/train/runs/checkpoint.js';

/** Large enough that a kill can hit the middle of a write. */
const LENGTHS = { weight: 40_000, 'weight/momentum': 40_000, bias: 10 };

/** A checkpoint with the step in all elements and facts. */
export function checkpointOf(step: number): Checkpoint {
  const tensors = Object.entries(LENGTHS).map(([name, length]) => {
    const data = new Float32Array(length).fill(step);
    return [name, { dtype: 'float32', dims: [length], data }] as const;
  });
  return { tensors: new Map(tensors), facts: { step } };
}
