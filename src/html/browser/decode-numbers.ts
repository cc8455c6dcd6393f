/** Arrays of numbers in the page's data. This file uses no part of the browser. */

/** Little-endian float32 from base64. */
export function decodeFloats(base64: string): Float32Array {
  return new Float32Array(bytesOf(base64));
}

/** Little-endian uint16 from base64. */
export function decodeShorts(base64: string): Uint16Array {
  return new Uint16Array(bytesOf(base64));
}

/** Little-endian uint32 from base64. */
export function decodeWords(base64: string): Uint32Array {
  return new Uint32Array(bytesOf(base64));
}

/** Bytes from base64. */
export function decodeBytes(base64: string): Uint8Array {
  return new Uint8Array(bytesOf(base64));
}

function bytesOf(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)).buffer;
}
