/** Where the files of a tar lie, by name: hard links name a file before them. */
import { hash } from 'node:crypto';
import type { TarEntry } from './tar-entries.js';

/** The bytes of a file in a tar. */
export type TarPlace = Pick<TarEntry, 'position' | 'sizeBytes'>;

/** 32-bit words of a name's SHA-256. */
const WORDS = 4;
/** The position, 0 in a free slot, and the size. */
const NUMBERS = 2;

/**
 * The files of a tar up to a place. Of two with one name, the later one counts, as when the tar is unpacked.
 *
 * @remarks A slot has 32 bytes. Between one and two thirds of the slots are taken: 48 to 96 bytes per file.
 */
export class TarFiles {
  #keys = new Uint32Array(64 * WORDS);
  #places = new Float64Array(64 * NUMBERS);
  #count = 0;

  /** Adds a file, or a link under its own name. */
  add({ name, link, position, sizeBytes }: TarEntry): void {
    const place = link === undefined ? { position, sizeBytes } : this.find(link.target);
    if (!place || link?.kind === 'symbolic') return;
    const key = keyOf(name);
    let slot = this.#slotOf(key);
    if (this.#places[NUMBERS * slot] === 0 && 3 * ++this.#count > (2 * this.#keys.length) / WORDS) {
      this.#grow();
      slot = this.#slotOf(key);
    }
    this.#put(slot, key, place.position, place.sizeBytes);
  }

  find(name: Uint8Array): TarPlace | undefined {
    const at = NUMBERS * this.#slotOf(keyOf(name));
    const position = this.#places[at]!;
    return position === 0 ? undefined : { position, sizeBytes: this.#places[at + 1]! };
  }

  /** The slot of a name, or the free slot where it belongs. Collisions go to the next slot. */
  #slotOf(key: Uint32Array): number {
    const slots = this.#keys.length / WORDS;
    let slot = key[0]! % slots;
    while (this.#places[NUMBERS * slot] !== 0 && key.some((word, i) => this.#keys[WORDS * slot + i] !== word))
      slot = (slot + 1) % slots;
    return slot;
  }

  #put(slot: number, key: Uint32Array, position: number, sizeBytes: number): void {
    this.#keys.set(key, WORDS * slot);
    this.#places.set([position, sizeBytes], NUMBERS * slot);
  }

  #grow(): void {
    const [keys, places] = [this.#keys, this.#places];
    this.#keys = new Uint32Array(2 * keys.length);
    this.#places = new Float64Array(2 * places.length);
    for (let slot = 0; slot < keys.length / WORDS; slot++) {
      const position = places[NUMBERS * slot]!;
      if (position === 0) continue;
      const key = keys.subarray(WORDS * slot, WORDS * (slot + 1));
      this.#put(this.#slotOf(key), key, position, places[NUMBERS * slot + 1]!);
    }
  }
}

function keyOf(name: Uint8Array): Uint32Array {
  const digest = hash('sha256', name, 'buffer');
  return new Uint32Array(digest.buffer.slice(digest.byteOffset, digest.byteOffset + 4 * WORDS));
}
