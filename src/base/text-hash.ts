/** Hashes of texts for tables in memory. Keys are drawn for each process, so that no list can be made whose texts collide. */
import { randomBytes } from 'node:crypto';

/** The number of 32-bit words of a hash. */
export const HASH_WORDS = 4;

const [K0, K1, K2, K3] = new Uint32Array(new Uint8Array(randomBytes(4 * HASH_WORDS)).buffer) as unknown as [
  number,
  number,
  number,
  number,
];

/** Writes the hash of a text, 128 bits: HalfSipHash-1-3 (Aumasson, Bernstein 2012) with two keys, over pairs of UTF-16 units. */
export function hashText(text: string, into: Uint32Array): void {
  // What is no text in files counts as what stands for it there.
  const whole = LONE.test(text) ? text.replaceAll(LONES, '\uFFFD') : text;
  halfSipHash(whole, K0, K1, into, 0);
  halfSipHash(whole, K2, K3, into, 2);
}

/** Halves of a pair of units. */
const LONE = /\p{Surrogate}/u;
const LONES = /\p{Surrogate}/gu;

function halfSipHash(text: string, k0: number, k1: number, into: Uint32Array, at: number): void {
  const { length } = text;
  let v0 = k0 | 0;
  let v1 = k1 ^ 0xee;
  let v2 = 0x6c79_6765 ^ k0;
  let v3 = 0x7465_6462 ^ k1;
  const words = length >> 1;
  // The words of the text, the last one with its length, and five rounds of finalisation in two parts.
  for (let i = 0; i < words + 7; i++) {
    let word = 0;
    if (i < words) word = text.charCodeAt(2 * i) | (text.charCodeAt(2 * i + 1) << 16);
    else if (i === words) word = (length << 16) | (length % 2 === 1 ? text.charCodeAt(length - 1) : 0);
    else if (i === words + 1) v2 ^= 0xee;
    else if (i === words + 4) {
      into[at] = v1 ^ v3;
      v1 ^= 0xdd;
    }
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = (v1 << 5) | (v1 >>> 27);
    v1 ^= v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = (v3 << 8) | (v3 >>> 24);
    v3 ^= v2;
    v0 = (v0 + v3) | 0;
    v3 = (v3 << 7) | (v3 >>> 25);
    v3 ^= v0;
    v2 = (v2 + v1) | 0;
    v1 = (v1 << 13) | (v1 >>> 19);
    v1 ^= v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  into[at + 1] = v1 ^ v3;
}
