/** Makes arrays of the same numbers equal at once: vitest compares their elements one by one, which takes a microsecond each. */
import { expect } from 'vitest';

const isTyped = (value: unknown): value is NodeJS.TypedArray =>
  ArrayBuffer.isView(value) && !(value instanceof DataView);

const bytesOf = ({ buffer, byteOffset, byteLength }: NodeJS.TypedArray): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

/** True, or undefined: what differs is left to vitest, which tells where. */
function haveSameNumbers(a: unknown, b: unknown): true | undefined {
  if (Array.isArray(a) && Array.isArray(b)) {
    const differs = a.findIndex((value, i) => typeof value !== 'number' || !Object.is(value, b[i]));
    return (a.length === b.length && differs < 0) || undefined;
  }
  const isSame = isTyped(a) && isTyped(b) && a.constructor === b.constructor && bytesOf(a).equals(bytesOf(b));
  return isSame || undefined;
}

// Test files that share a process run this once each.
const shared = globalThis as { hasEqualArrays?: true };
if (!shared.hasEqualArrays) expect.addEqualityTesters([haveSameNumbers]);
shared.hasEqualArrays = true;
