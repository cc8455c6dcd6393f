/** The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998), which torch uses as its CPU generator. */

const SIZE = 624;
const MIDDLE = 397;
const MATRIX = 0x9908_b0df;
const UPPER = 0x8000_0000;
const LOWER = 0x7fff_ffff;

/** A generator of 32-bit integers, the same on every machine. */
export class MersenneTwister {
  readonly #state = new Uint32Array(SIZE);
  #at = SIZE;

  /** @param seed - A safe integer. Its lowest 32 bits count, as in torch. */
  constructor(seed: number) {
    const state = this.#state;
    state[0] = Number(BigInt.asUintN(32, BigInt(seed)));
    for (let i = 1; i < SIZE; i++) {
      const before = state[i - 1]! ^ (state[i - 1]! >>> 30);
      state[i] = Math.imul(1_812_433_253, before) + i;
    }
  }

  /** Returns the next integer, from 0 to 2³² - 1. */
  next(): number {
    if (this.#at === SIZE) this.#twist();
    let value = this.#state[this.#at++]!;
    value ^= value >>> 11;
    value ^= (value << 7) & 0x9d2c_5680;
    value ^= (value << 15) & 0xefc6_0000;
    return (value ^ (value >>> 18)) >>> 0;
  }

  #twist(): void {
    const state = this.#state;
    for (let i = 0; i < SIZE; i++) {
      const joined = (state[i]! & UPPER) | (state[(i + 1) % SIZE]! & LOWER);
      state[i] = state[(i + MIDDLE) % SIZE]! ^ (joined >>> 1) ^ (joined & 1 ? MATRIX : 0);
    }
    this.#at = 0;
  }
}
