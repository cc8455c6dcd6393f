/**
 * Copying large tensors without blocking the caller's event loop: in slices, with a turn of the loop between them. Copies run
 * one after the other, so the first lane has its batch before the second one's is begun.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { TensorData } from './tensor.js';

/** A run of elements to copy. */
export interface Span {
  readonly from: number;
  readonly to: number;
  readonly length: number;
}

/** Elements from one array into another of the same kind. */
export interface Copy {
  readonly source: TensorData;
  readonly target: TensorData;
  readonly spans: Iterable<Span>;
}

/** Bytes copied per turn of the event loop: 0.1 to 0.3 ms; larger slices gain nothing (docs/decisions/008-copies.md). */
const SLICE_BYTES = 1 << 20;

let last: Promise<void> = Promise.resolve();

/** Copies, after all copies that were asked for before. */
export function copyInTurns(copies: readonly Copy[]): Promise<void> {
  const copied = last.then(() => copyAll(copies));
  // A copy fails if its caller has given the array away meanwhile; those behind it are none of its business.
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
  const step = Math.max(1, Math.floor(SLICE_BYTES / elementBytes(source)));
  for (let done = 0; done < length; done += step)
    yield { from: from + done, to: to + done, length: Math.min(step, length - done) };
}

/** Returns the bytes copied. */
function copySpan(source: TensorData, target: TensorData, from: number, to: number, length: number): number {
  if (Array.isArray(source))
    for (let i = 0; i < length; i++) (target as string[])[to + i] = source[from + i]!;
  // The same kind of array on both sides; the union of all pairs is beyond the type checker.
  else (target as Float32Array).set((source as Float32Array).subarray(from, from + length), to);
  return length * elementBytes(source);
}

function elementBytes(data: TensorData): number {
  return Array.isArray(data) ? 64 : data.BYTES_PER_ELEMENT;
}
