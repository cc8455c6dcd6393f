/** Entry of a decoding thread, which turns files into pixels in shared memory. */
import { parentPort, workerData } from 'node:worker_threads';
import { packError } from '../../base/errors.js';
import { decoderVersions, joinSharpState } from '../decode/open-sharp.js';
import { measureDeviation } from '../transform/deviation.js';
import type { StampTaker } from '../file/image-file.js';
import { loadPixels } from '../transform/load-image.js';
import { sharedSimdModule } from '../simd/simd-module.js';
import { Transform } from '../transform/transform.js';
import type { DecodeReply, DecodeRequest, DecodeThreadData } from './decode-protocol.js';

const port = parentPort!;
// Checked by createTransform in the owner's thread.
const { transform: options, checksum, stop, sharpState } = workerData as DecodeThreadData;
joinSharpState(sharpState);
const transform = new Transform(options, null);
// Compiles while the session opens, before the first image waits for it.
sharedSimdModule();

async function decode({ id, source, into, isMeasured, augmentSeed }: DecodeRequest): Promise<DecodeReply> {
  const taker: StampTaker = { checksum };
  try {
    // Blocks on the file: this thread does nothing else, and the thread pool takes five times the CPU time.
    const loaded = await loadPixels(source, transform, into, taker, augmentSeed);
    const { from, reduction, decodeMs, resampleMs } = loaded;
    const deviation =
      isMeasured && reduction > 1 ? { deviation: await measureDeviation(source, transform) } : {};
    // loadPixels sets it before it decodes.
    const stamp = taker.stamp!;
    return { id, ...from, reduction, ...deviation, stamp, decoder: decoderVersions(), decodeMs, resampleMs };
  } catch (error) {
    return { id, error: packError(error), stamp: taker.stamp };
  }
}

async function decodeRun(requests: readonly DecodeRequest[]): Promise<void> {
  const replies: DecodeReply[] = [];
  for (const request of requests) {
    if (Atomics.load(stop, 0) !== 0) break;
    replies.push(await decode(request));
  }
  port.postMessage(replies);
}

const working = new Set<Promise<void>>();

port.on('message', (requests: readonly DecodeRequest[] | null) => {
  if (requests === null) {
    // The thread ends when it is idle. In Deno, ports have no close().
    void Promise.all(working).then(() => port.unref());
    return;
  }
  const work: Promise<void> = decodeRun(requests).finally(() => working.delete(work));
  working.add(work);
});
