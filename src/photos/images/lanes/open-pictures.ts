/** The pictures that a decoding thread has open, to load tiles of. */
import { packError } from '../../../base/packed-error.js';
import { machineFailure } from '../../../base/machine-failure.js';
import { decoderVersions } from '../decode/open-sharp.js';
import type { StampTaker } from '../file/image-file.js';
import { runLength } from '../pixels/tile-grid.js';
import { TileReader, transformTile } from '../transform/read-tiles.js';
import type { Transform } from '../transform/transform.js';
import type { DecodeReply, TileRequest } from './decode-protocol.js';

/** A picture, and the stamp of its file. */
interface OpenPicture {
  readonly reader: Promise<TileReader>;
  readonly runLength: number;
  readonly taker: StampTaker;
}

export class OpenPictures {
  readonly #transform: Transform;
  readonly #checksum: boolean;
  readonly #pictures = new Map<number, OpenPicture>();

  constructor(transform: Transform, checksum: boolean) {
    this.#transform = transform;
    this.#checksum = checksum;
  }

  /** Loads tiles, and opens their picture if the request says so. */
  async load({ id, picture, open, first, into }: TileRequest): Promise<DecodeReply> {
    if (open) {
      const { source, plan } = open;
      const taker: StampTaker = { checksum: this.#checksum };
      const reader = TileReader.open(source, this.#transform, plan, taker);
      this.#pictures.set(picture, { reader, taker, runLength: runLength(plan.size) });
    }
    const opened = this.#pictures.get(picture)!;
    const { taker } = opened;
    try {
      const started = performance.now();
      const reader = await opened.reader;
      const { tiles } = await reader.read(first);
      const readAt = performance.now();
      const bytes = into.length / opened.runLength;
      for (const [i, { image }] of tiles.entries())
        transformTile(this.#transform, image, into.subarray(i * bytes, (i + 1) * bytes));
      const { width, height, marks, isRandom } = reader.picture;
      return {
        id,
        width,
        height,
        marks,
        isRandom,
        tiles: tiles.map(({ index, tile }) => ({ index, tile })),
        // Opening the picture has set it.
        stamp: taker.stamp!,
        decoder: decoderVersions(),
        decodeMs: readAt - started,
        resampleMs: performance.now() - readAt,
      };
    } catch (error) {
      return { id, error: packError(machineFailure(error) ?? error), stamp: taker.stamp };
    }
  }

  async close(number: number): Promise<void> {
    const picture = this.#pictures.get(number);
    this.#pictures.delete(number);
    await (await picture?.reader.catch(() => undefined))?.close();
  }

  async closeAll(): Promise<void> {
    await Promise.all([...this.#pictures.keys()].map((number) => this.close(number)));
  }
}
