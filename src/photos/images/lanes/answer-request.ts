/** The request for an image → its reply, in a decoding thread. */
import { packError } from '../../../base/packed-error.js';
import { machineFailure } from '../../../base/machine-failure.js';
import { decoderVersions } from '../decode/open-sharp.js';
import { readImageFile, type StampTaker } from '../file/image-file.js';
import { measureDeviation } from '../transform/deviation.js';
import { loadPages } from '../transform/load-pages.js';
import { loadPixels } from '../transform/load-pixels.js';
import { shareImage } from '../transform/share-image.js';
import type { Transform } from '../transform/transform.js';
import type { DecodeReply, DecodeRequest } from './decode-protocol.js';

/** Decodes and transforms the image of a request. */
export async function answerRequest(
  { id, source, isStamp, into, isMeasured, augmentSeed, pages }: DecodeRequest,
  transform: Transform,
  checksum: StampTaker['checksum'],
): Promise<DecodeReply> {
  const taker: StampTaker = { checksum };
  try {
    if (isStamp) {
      const started = performance.now();
      readImageFile(source, taker);
      const decodeMs = performance.now() - started;
      return { id, stamp: taker.stamp!, decodeMs, resampleMs: 0, decoder: decoderVersions() };
    }
    if (pages) {
      const loaded = await loadPages(source, transform, pages, into!, taker);
      return { id, ...loaded, reduction: 1, stamp: taker.stamp!, decoder: decoderVersions() };
    }
    // Blocks on the file: this thread does nothing else, and the thread pool takes five times the CPU time.
    const { image, from, ...told } = await loadPixels(source, transform, into, taker, augmentSeed);
    const isCompared = isMeasured && told.reduction > 1;
    const deviation = isCompared ? { deviation: await measureDeviation(source, transform) } : {};
    // loadPixels sets it before it decodes.
    const stamp = taker.stamp!;
    const result = into ? {} : { result: shareImage(image) };
    return { id, ...from, ...told, ...deviation, stamp, ...result, decoder: decoderVersions() };
  } catch (error) {
    return { id, error: packError(machineFailure(error) ?? error), stamp: taker.stamp };
  }
}
