/** Entry of a decoding thread: files become pixels in shared memory. */
import { parentPort, workerData } from 'node:worker_threads';
import { packError } from '../errors.js';
import { decodeImage, decoderVersions } from './decode.js';
import { measureDeviation } from './deviation.js';
import type { DecodeReply, DecodeRequest } from './decode-protocol.js';
import type { TransformOptions } from './presets.js';
import { Transform } from './transform.js';

const port = parentPort!;
// Checked where it was made.
const transform = new Transform(workerData as TransformOptions, null);

async function decode({ id, source, into, isMeasured }: DecodeRequest): Promise<DecodeReply> {
  try {
    const started = performance.now();
    // A thread that only decodes may wait for its file: a fifth of the CPU time that the thread pool takes.
    const image = await decodeImage(source, transform.options, true);
    const decoded = performance.now();
    transform.apply(image, into);
    const { reduction, source: size } = image;
    const resampleMs = performance.now() - decoded;
    const deviation =
      isMeasured && reduction > 1 ? { deviation: await measureDeviation(source, transform) } : {};
    const decoder = decoderVersions();
    return { id, ...size, reduction, ...deviation, decoder, decodeMs: decoded - started, resampleMs };
  } catch (error) {
    return { id, error: packError(error) };
  }
}

const working = new Set<Promise<void>>();

port.on('message', (request: DecodeRequest | null) => {
  if (request === null) {
    void Promise.all(working).then(() => port.close());
    return;
  }
  const work: Promise<void> = decode(request).then((reply) => {
    port.postMessage(reply);
    working.delete(work);
  });
  working.add(work);
});
