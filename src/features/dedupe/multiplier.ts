/** A session that multiplies tiles. */
import type { Device } from '../../runtime/lanes/device.js';
import { openMadeModel } from '../../runtime/made-model.js';
import type { Replica } from '../../runtime/replica.js';
import type { NamedTensor } from '../../tensor/tensor.js';
import { wholePart } from '../../tensor/tensor-part.js';
import { encodeProductModel, PRODUCT_INPUTS, PRODUCT_OUTPUTS } from './product-model.js';
import { unitRows, type Tile } from './tiles.js';

/** The products of two tiles' rows, scaled to length 1, in float32. */
export interface TileProducts {
  readonly left: Tile;
  readonly right: Tile;
  /** `[L, R]`. */
  readonly dots: Float32Array;
  /** The largest of each row of `left`: `[L]`. */
  readonly most: Float32Array;
}

/** Multiplies tiles. Open one with {@link openMultiplier}, and close it after use. */
export class Multiplier {
  readonly #replica: Replica;

  constructor(replica: Replica) {
    this.#replica = replica;
  }

  get isOnCpu(): boolean {
    return this.#replica.facts.device.type === 'cpu';
  }

  async multiply(left: Tile, right: Tile, signal: AbortSignal | undefined): Promise<TileProducts> {
    const parts = [left, right].map((tile, i) => wholePart(feedOf(PRODUCT_INPUTS[i]!, tile)));
    const [dots, most] = await this.#replica.run(parts, PRODUCT_OUTPUTS, { signal, transfer: true });
    // The graph's outputs are float32.
    return { left, right, dots: dots!.data as Float32Array, most: most!.data as Float32Array };
  }

  close(): Promise<void> {
    return this.#replica.close();
  }
}

function feedOf(name: string, tile: Tile): NamedTensor {
  const { length } = tile.rows;
  return { name, dtype: 'float32', dims: [length, tile.data.length / length], data: unitRows(tile) };
}

/** Opens a session for rows of `elements` numbers. */
export async function openMultiplier(elements: number, device: Device): Promise<Multiplier> {
  return new Multiplier(await openMadeModel(encodeProductModel(elements), device));
}
