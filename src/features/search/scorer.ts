/** A session that scores blocks of rows. */
import type { FeatureBlock } from '../../datasets/files/dataset.js';
import type { Device } from '../../runtime/lanes/device.js';
import { openMadeModel } from '../../runtime/made-model.js';
import type { Replica } from '../../runtime/replica.js';
import { wholePart } from '../../tensor/tensor-part.js';
import { encodeScoreModel, SCORE_INPUT, SCORE_OUTPUTS } from './score-model.js';

/** The scores of a block, in float32. */
export interface BlockScores {
  readonly block: FeatureBlock;
  /** One number per query for each row. */
  readonly dots: Float32Array;
  /** One number per row. */
  readonly squares: Float32Array;
}

/** Scores blocks. Open one with {@link openScorer}, and close it after use. */
export class Scorer {
  readonly #replica: Replica;
  readonly #elements: number;

  constructor(replica: Replica, elements: number) {
    this.#replica = replica;
    this.#elements = elements;
  }

  get isOnCpu(): boolean {
    return this.#replica.facts.device.type === 'cpu';
  }

  /** Scores a block. Its data stays with the caller, who computes exact values from it. */
  async score(block: FeatureBlock, signal: AbortSignal | undefined): Promise<BlockScores> {
    const feed = {
      name: SCORE_INPUT,
      dtype: 'float32',
      dims: [block.rows, this.#elements],
      data: block.data,
    } as const;
    const [dots, squares] = await this.#replica.run([wholePart(feed)], SCORE_OUTPUTS, { signal });
    // The graph's outputs are float32.
    return { block, dots: dots!.data as Float32Array, squares: squares!.data as Float32Array };
  }

  close(): Promise<void> {
    return this.#replica.close();
  }
}

/**
 * Opens a session for queries.
 *
 * @param vectors - Vectors of `elements` numbers.
 */
export async function openScorer(
  vectors: readonly Float32Array[],
  elements: number,
  device: Device,
): Promise<Scorer> {
  const queries = new Float32Array(vectors.length * elements);
  for (const [i, vector] of vectors.entries()) queries.set(vector, i * elements);
  const replica = await openMadeModel(encodeScoreModel(queries, vectors.length, elements), device);
  return new Scorer(replica, elements);
}
