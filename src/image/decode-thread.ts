/** Entry of a decoding thread: files become pixels in shared memory. */
import { parentPort, workerData } from 'node:worker_threads';
import { packError } from '../errors.js';
import { decodeImage } from './decode.js';
import type { DecodeReply, DecodeRequest } from './decode-protocol.js';
import type { TransformOptions } from './presets.js';
import { Transform } from './transform.js';

const port = parentPort!;
// Checked where it was made.
const transform = new Transform(workerData as TransformOptions, null);

async function decode({ id, source, into }: DecodeRequest): Promise<DecodeReply> {
  try {
    const image = await decodeImage(source, transform.options);
    into.set(transform.apply(image).data);
    return { id, width: image.width, height: image.height };
  } catch (error) {
    return { id, error: packError(error) };
  }
}

port.on('message', (request: DecodeRequest | null) => {
  if (request === null) port.close();
  else void decode(request).then((reply) => port.postMessage(reply));
});
