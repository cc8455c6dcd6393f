/** Entry of a decoding thread, which turns files into pixels in shared memory. */
import { parentPort, workerData } from 'node:worker_threads';
import { joinSharpState } from '../decode/open-sharp.js';
import { sharedSimdModule } from '../simd/simd-module.js';
import { Transform } from '../transform/transform.js';
import { answerRequest } from './answer-request.js';
import { OpenPictures } from './open-pictures.js';
import type {
  CloseRequest,
  DecodeReply,
  DecodeRequest,
  DecodeThreadData,
  TileRequest,
} from './decode-protocol.js';

const port = parentPort!;
// Checked by createTransform in the owner's thread.
const { transform: options, checksum, stop, sharpState } = workerData as DecodeThreadData;
joinSharpState(sharpState);
const transform = new Transform(options, null);
// Compiles while the session opens, before the first image waits for it.
sharedSimdModule();

async function decodeRun(requests: readonly DecodeRequest[]): Promise<void> {
  const replies: DecodeReply[] = [];
  for (const request of requests) {
    if (Atomics.load(stop, 0) !== 0) break;
    replies.push(await answerRequest(request, transform, checksum));
  }
  port.postMessage(replies);
}

const pictures = new OpenPictures(transform, checksum === true);

async function runTiles(request: TileRequest): Promise<void> {
  if (Atomics.load(stop, 0) === 0) port.postMessage([await pictures.load(request)]);
}

/** Closes what is open; then the thread ends, as it is idle. In Deno, ports have no close(). */
async function end(): Promise<void> {
  await Promise.all(working);
  await pictures.closeAll();
  port.unref();
}

const working = new Set<Promise<void>>();

port.on('message', (request: readonly DecodeRequest[] | TileRequest | CloseRequest | null) => {
  if (request === null) return void end();
  const step =
    'close' in request
      ? pictures.close(request.close)
      : 'picture' in request
        ? runTiles(request)
        : decodeRun(request);
  const work: Promise<void> = step.finally(() => working.delete(work));
  working.add(work);
});
