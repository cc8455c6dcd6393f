/** SHA-256 of a model. */
import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isCollecting } from './emit.js';
import type { ByteSource } from './wire/source.js';

const SLICE_BYTES = 1024 * 1024;

/** Hashes a source in slices, giving the event loop a turn between them. */
export async function digestSource(source: ByteSource, signal?: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for (let offset = 0; offset < source.sizeBytes; offset += SLICE_BYTES) {
    signal?.throwIfAborted();
    while (isCollecting()) await nextTurn();
    hash.update(source.read(offset, Math.min(SLICE_BYTES, source.sizeBytes - offset)));
    await nextTurn();
  }
  return hash.digest('hex');
}
