/** Arrays of numbers out of base64, and numbers as text. */

function bytesOf(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)).buffer;
}

/** Little-endian float32. */
export function decodeFloats(base64: string): Float32Array {
  return new Float32Array(bytesOf(base64));
}

/** Little-endian uint16. */
export function decodeShorts(base64: string): Uint16Array {
  return new Uint16Array(bytesOf(base64));
}

/** One minus a cosine distance, with as many digits as tell it from 1. */
export function formatCosine(distance: number): string {
  if (distance <= 0) return '1';
  const digits = Math.max(3, Math.min(9, Math.ceil(-Math.log10(distance)) + 1));
  return (1 - distance).toFixed(digits);
}
