/** Files whose graph only prepares photos, made to be compared with the product's own pixels. */
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { pruneModel } from '../../src/extract/prune-model.js';
import type { Transform } from '../../src/photos/images/transform/transform.js';
import { openModel } from '../../src/run/model/open/open-model.js';
import { modelBytes } from './graphs.js';

/** A decoded photo. */
export interface Photo {
  readonly height: number;
  readonly width: number;
  readonly data: Uint8Array;
}

const ELEM_TYPES = { float32: 1, uint8: 2, float16: 10 } as const;

/** What a file is made for. */
export interface FileKind {
  readonly input?: 'photo' | 'photo-batch';
  readonly dtype?: keyof typeof ELEM_TYPES;
  readonly isLast?: boolean;
  readonly opset?: number;
}

/** The bytes of a file that gives the tensor of a transform, and nothing else. */
export async function photoFile(
  transform: Transform,
  { input = 'photo', dtype = 'float32', isLast = false, opset = 13 }: FileKind = {},
): Promise<Uint8Array> {
  const { outputSize, channels } = transform;
  const sides = outputSize ? [outputSize.height, outputSize.width] : ['rows', 'columns'];
  const dims = isLast ? ['batch', ...sides, channels] : ['batch', channels, ...sides];
  const elemType = ELEM_TYPES[dtype];
  const graph = {
    inputs: [{ name: 'pixels', dims, elemType }],
    outputs: [{ name: 'tensor', dims, elemType }],
    nodes: [{ op: 'Identity', inputs: ['pixels'], outputs: ['tensor'] }],
  };
  const model = await openModel(modelBytes(graph, { opset }));
  const pruned = await pruneModel(model, ['tensor:tensor'], { input, transform });
  return pruned.bytes();
}

/** Runs such a file. */
export class PhotoSession {
  readonly #session: InferenceSession;

  private constructor(session: InferenceSession) {
    this.#session = session;
  }

  static async open(bytes: Uint8Array): Promise<PhotoSession> {
    return new PhotoSession(
      await InferenceSession.create(bytes, { intraOpNumThreads: 1, logSeverityLevel: 3 }),
    );
  }

  /** The bytes of the tensor of a photo, and its dims. */
  async run(
    { height, width, data }: Photo,
    batch?: number,
  ): Promise<{ dims: readonly number[]; bytes: Uint8Array }> {
    const dims = batch === undefined ? [height, width, 3] : [batch, height, width, 3];
    const { tensor } = await this.#session.run({ photo: new Tensor('uint8', data, dims) });
    const { buffer, byteOffset, byteLength } = tensor!.data as Float32Array;
    return { dims: tensor!.dims, bytes: new Uint8Array(buffer, byteOffset, byteLength) };
  }

  close(): Promise<void> {
    return this.#session.release();
  }
}

/** A photo of noise, or of slow colours with edges, which depends on its seed alone. */
export function madePhoto(height: number, width: number, seed: number): Photo {
  const data = new Uint8Array(height * width * 3);
  let state = (seed * 2_654_435_761 + 12_345) >>> 0;
  const isNoise = seed % 2 === 0;
  for (let y = 0, at = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let c = 0; c < 3; c++) {
        state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
        data[at++] = isNoise ? state >>> 24 : ((x >> (c + 2)) ^ (y >> 3) ? x * 3 + y : 255) + (state >>> 30);
      }
  return { height, width, data };
}
