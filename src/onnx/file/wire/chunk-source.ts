/** A model that is not written anywhere: pieces of another source, and new bytes, read as if they were one file. */
import { chunkBytes, type Chunk } from './chunk.js';
import type { ByteSource } from './source.js';

/** A piece of the source, or new bytes. */
export type SourceChunk = Exclude<Chunk, { readonly path: string }>;

/** Chunks over a source, as a source. */
export function chunkSource(base: ByteSource, chunks: readonly SourceChunk[]): ByteSource {
  const starts: number[] = [];
  let sizeBytes = 0;
  for (const chunk of chunks) {
    starts.push(sizeBytes);
    sizeBytes += chunkBytes(chunk);
  }
  let scratch = new Uint8Array(0);
  return {
    label: base.label,
    sizeBytes,
    read(offset, length, into) {
      const wanted = Math.max(0, Math.min(length, sizeBytes - offset));
      if (!into && scratch.byteLength < wanted) scratch = new Uint8Array(wanted);
      const target = into ?? scratch;
      let filled = 0;
      for (let i = chunkAt(starts, offset); filled < wanted; i++) {
        const chunk = chunks[i]!;
        const skipped = offset + filled - starts[i]!;
        const take = Math.min(wanted - filled, chunkBytes(chunk) - skipped);
        const part = target.subarray(filled, filled + take);
        if (chunk instanceof Uint8Array) part.set(chunk.subarray(skipped, skipped + take));
        else if (base.read(chunk.start + skipped, take, part).byteLength < take) break;
        filled += take;
      }
      return target.subarray(0, filled);
    },
  };
}

/** The index of the last chunk that starts at an offset or before it. */
function chunkAt(starts: readonly number[], offset: number): number {
  let low = 0;
  let high = starts.length;
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if (starts[middle]! <= offset) low = middle;
    else high = middle;
  }
  return low;
}
