/** Entry of a decoding thread: files become pixels in shared memory. */
import { parentPort, workerData } from 'node:worker_threads';
import { packError } from '../../base/errors.js';
import { decoderVersions } from '../decode/decode.js';
import { measureDeviation } from '../deviation.js';
import type { DecodeReply, DecodeRequest, DecodeThreadData } from './decode-protocol.js';
import type { StampTaker } from '../pixels/image-file.js';
import { loadPixels } from '../load-pixels.js';
import { sharedSimdModule } from '../pixels/simd-module.js';
import { Transform } from '../transform.js';

const port = parentPort!;
// Checked where it was made.
const { transform: options, checksum, stop } = workerData as DecodeThreadData;
const transform = new Transform(options, null);
// Compiled while the session opens, not when the first image waits for it.
sharedSimdModule();

async function decode({ id, source, into, isMeasured }: DecodeRequest): Promise<DecodeReply> {
  const taker: StampTaker = { checksum };
  try {
    // A thread that only decodes may wait for its file: a fifth of the CPU time that the thread pool takes.
    const { from, reduction, decodeMs, resampleMs } = await loadPixels(source, transform, into, taker);
    const deviation =
      isMeasured && reduction > 1 ? { deviation: await measureDeviation(source, transform) } : {};
    // Taken before anything is decoded.
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
    void Promise.all(working).then(() => port.close());
    return;
  }
  const work: Promise<void> = decodeRun(requests).finally(() => working.delete(work));
  working.add(work);
});
