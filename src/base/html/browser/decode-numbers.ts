/** Arrays of numbers in the page's data. This file uses no part of the browser. */

/** Little-endian numbers from base64, as an array such as Float32Array. */
export function decodeNumbers<Numbers>(
  ArrayOf: new (bytes: ArrayBuffer) => Numbers,
  base64: string,
): Numbers {
  return new ArrayOf(Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)).buffer);
}
