/** The inputs that a dataset already holds, in bounded memory: hashes in flat arrays, never the paths. */
import { hash } from 'node:crypto';
import type { ImageErrorCode } from '../base/errors.js';
import type { FileStamp } from '../base/file-stamp.js';

/** What became of an input: `ok`, or the code of its error. */
export type Outcome = 'ok' | ImageErrorCode;

/** An input as the dataset holds it. */
export interface KnownInput {
  readonly outcome: Outcome;
  /** The latest shard that holds it. */
  readonly shard: number;
  /** Whether its file was as the stamp says. */
  isAs(stamp: FileStamp): boolean;
}

/** 32-bit words per input: four of the path's hash, two of the stamp's, the shard, the outcome. */
const WORDS = 8;
const STAMP = 4;
const SHARD = 6;
/** Index of the outcome plus one; 0 marks a free slot. The highest bit: seen in this run. */
const OUTCOME = 7;
const SEEN = 0x8000_0000;

/**
 * Inputs by path. A path is known by 128 bits of its SHA-256: that two of 10 million share them has a chance of 10⁻²⁵.
 *
 * @remarks 32 bytes a slot, between a third and two thirds of them taken: 48 to 96 bytes an input.
 */
export class KnownInputs {
  #slots: Uint32Array;
  #count = 0;
  readonly #outcomes: Outcome[] = ['ok'];
  /** Of the latest path: one is looked up, marked and set in turn. */
  #latest: { readonly path: string; readonly hash: Uint32Array } | undefined;

  /** @param expected - Inputs to make room for. */
  constructor(expected = 0) {
    this.#slots = new Uint32Array(WORDS * slotsFor(expected));
  }

  /** Inputs, each counted once. */
  get size(): number {
    return this.#count;
  }

  /** Looks an input up. */
  find(path: string): KnownInput | undefined {
    const slots = this.#slots;
    const at = this.#slotOf(this.#hashOf(path));
    if (slots[at + OUTCOME] === 0) return undefined;
    return {
      outcome: this.#outcomes[(slots[at + OUTCOME]! & ~SEEN) - 1]!,
      shard: slots[at + SHARD]!,
      isAs: (stamp) => {
        const [high, low] = stampHash(stamp);
        return slots[at + STAMP] === high && slots[at + STAMP + 1] === low;
      },
    };
  }

  /** Sets what is known of an input. */
  set(path: string, outcome: Outcome, stamp: FileStamp | null, shard: number): void {
    const hash = this.#hashOf(path);
    let at = this.#slotOf(hash);
    const isNew = this.#slots[at + OUTCOME] === 0;
    if (isNew) {
      if (3 * ++this.#count > (2 * this.#slots.length) / WORDS) {
        this.#grow();
        at = this.#slotOf(hash);
      }
      this.#slots.set(hash, at);
    }
    const [high, low] = stampHash(stamp);
    const seen = this.#slots[at + OUTCOME]! & SEEN;
    this.#slots.set([high, low, shard, (this.#numberOf(outcome) | seen) >>> 0], at + STAMP);
  }

  /** Remembers an input whose outcome is not there yet, as seen in this run. */
  reserve(path: string): void {
    this.set(path, 'ok', null, 0);
    this.markSeen(path);
  }

  /** Marks a known input as seen in this run; true if it was already. */
  markSeen(path: string): boolean {
    const at = this.#slotOf(this.#hashOf(path)) + OUTCOME;
    const value = this.#slots[at]!;
    this.#slots[at] = (value | SEEN) >>> 0;
    return (value & SEEN) !== 0;
  }

  #hashOf(path: string): Uint32Array {
    if (this.#latest?.path !== path) this.#latest = { path, hash: hashOf(path) };
    return this.#latest.hash;
  }

  #numberOf(outcome: Outcome): number {
    const known = this.#outcomes.indexOf(outcome);
    return known >= 0 ? known + 1 : this.#outcomes.push(outcome);
  }

  /** Where an input is, or belongs: the first slot from its own on that is its or free. */
  #slotOf(hash: Uint32Array): number {
    const slots = this.#slots;
    let at = WORDS * (hash[0]! % (slots.length / WORDS));
    while (slots[at + OUTCOME] !== 0 && !isSame(slots, at, hash)) {
      at += WORDS;
      if (at === slots.length) at = 0;
    }
    return at;
  }

  #grow(): void {
    const before = this.#slots;
    this.#slots = new Uint32Array(2 * before.length);
    for (let from = 0; from < before.length; from += WORDS) {
      if (before[from + OUTCOME] === 0) continue;
      const slot = before.subarray(from, from + WORDS);
      this.#slots.set(slot, this.#slotOf(slot));
    }
  }
}

function slotsFor(expected: number): number {
  return Math.max(64, Math.ceil(1.5 * expected) + 1);
}

function isSame(slots: Uint32Array, at: number, hash: Uint32Array): boolean {
  for (let word = 0; word < STAMP; word++) if (slots[at + word] !== hash[word]) return false;
  return true;
}

function hashOf(text: string): Uint32Array {
  const digest = hash('sha256', text, 'buffer');
  return new Uint32Array(digest.buffer.slice(digest.byteOffset, digest.byteOffset + 4 * STAMP));
}

const WORD = 2 ** 32;

/** Of the content where it is known, else size and time themselves, mixed where they are longer than a word. */
function stampHash(stamp: FileStamp | null): readonly [number, number] {
  if (stamp === null) return [0, 0];
  const { sizeBytes, modifiedMs, sha256 } = stamp;
  if (sha256 !== null)
    return [Number.parseInt(sha256.slice(0, 8), 16), Number.parseInt(sha256.slice(8, 16), 16)];
  const time = modifiedMs ?? -1;
  return [
    (sizeBytes ^ Math.imul(Math.floor(sizeBytes / WORD) + 1, 0x9e3779b1) ^ Math.floor(time / WORD)) >>> 0,
    time >>> 0,
  ];
}
