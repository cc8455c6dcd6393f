/** Objects of a native library with one owner, which releases each of them once. */
import type { Address } from './koffi.js';

/** What its owner releases together. */
export class Handles {
  readonly #releases: (() => void)[] = [];

  /** Takes an object, and gives it back for use. */
  own(handle: Address, release: (handle: Address) => void): Address {
    this.#releases.push(() => release(handle));
    return handle;
  }

  /** Releases all, the newest first. Idempotent. */
  release(): void {
    for (const release of this.#releases.splice(0).toReversed()) release();
  }
}
