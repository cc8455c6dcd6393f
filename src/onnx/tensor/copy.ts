/**
 * Copies large tensors without blocking the event loop: in slices, with a turn of the loop between them. Copies run one after the
 * other, so that the first lane has its batch before the copy for the second one begins.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { TensorData } from './tensor.js';

/** A contiguous range of elements to copy. */
export interface Span {
  readonly from: number;
  readonly to: number;
  readonly length: number;
}

/** A copy from one array to another of the same kind. */
export interface Copy {
  readonly source: TensorData;
  readonly target: TensorData;
  readonly spans: Iterable<Span>;
}

/** Bytes copied per turn of the event loop: 0.1 to 0.3 ms. Larger slices gain nothing (docs/decisions/008-copies.md). */
const SLICE_BYTES = 1 << 20;

let last: Promise<void> = Promise.resolve();

/** Copies, after all copies that were requested earlier. */
export function copyInTurns(copies: readonly Copy[]): Promise<void> {
  const copied = last.then(() => copyAll(copies));
  // A copy fails if its caller has transferred the array meanwhile; later copies continue.
  last = copied.catch(() => undefined);
  return copied;
}

async function copyAll(copies: readonly Copy[]): Promise<void> {
  let bytes = 0;
  for (const { source, target, spans } of copies) {
    for (const span of spans) {
      for (const { from, to, length } of slices(span, source)) {
        if (bytes >= SLICE_BYTES) {
          await nextTurn();
          bytes = 0;
        }
        bytes += copySpan(source, target, from, to, length);
      }
    }
  }
}

function* slices({ from, to, length }: Span, source: TensorData): Generator<Span> {
  const step = Math.max(1, Math.floor(SLICE_BYTES / bytesPerElement(source)));
  for (let done = 0; done < length; done += step)
    yield { from: from + done, to: to + done, length: Math.min(step, length - done) };
}

/** Returns the number of bytes copied. */
function copySpan(source: TensorData, target: TensorData, from: number, to: number, length: number): number {
  if (Array.isArray(source))
    for (let i = 0; i < length; i++) (target as string[])[to + i] = source[from + i]!;
  // Both arrays are of the same kind; the type checker cannot follow all pairs.
  else (target as Float32Array).set((source as Float32Array).subarray(from, from + length), to);
  return length * bytesPerElement(source);
}

/** A string counts as 64 bytes. */
function bytesPerElement(data: TensorData): number {
  return Array.isArray(data) ? 64 : data.BYTES_PER_ELEMENT;
}
