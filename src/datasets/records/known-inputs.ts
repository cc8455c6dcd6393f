/** The inputs that a dataset holds, in bounded memory: hashes in a flat array instead of paths. */
import { hashText, HASH_WORDS } from '../../base/text-hash.js';
import type { ImageErrorCode } from '../../base/errors.js';
import type { FileStamp } from '../../base/file-stamp.js';

/** The outcome of an input: `ok`, the code of its error, or `removed` if a run marked it so. */
export type Outcome = 'ok' | 'removed' | ImageErrorCode;

/** An input as the dataset holds it. */
export interface KnownInput {
  readonly outcome: Outcome;
  /** The number of the latest shard that holds it. */
  readonly shard: number;
  /** Whether this run has seen it in the source. */
  readonly isSeen: boolean;
  /** Whether its file had this stamp when it was read: by content if that was hashed, else by size and time. */
  isAs(stamp: FileStamp): boolean;
}

/** 32-bit words per input: four of the path's hash, two of the stamp's hash, the shard, the outcome. */
const WORDS = 8;
const STAMP = 4;
const SHARD = 6;
/** The index of the outcome plus one, and two flags; 0 marks a free slot. */
const OUTCOME = 7;
/** This run has seen the input. */
const SEEN = 0x8000_0000;
/** The stamp is that of a content, not of a size and a time. */
const HASHED = 0x4000_0000;
const FLAGS = SEEN | HASHED;

/**
 * Inputs by path. A path is identified by a hash of 128 bits. The probability that two of 10 million paths share one is about 10⁻²⁵.
 *
 * @remarks A slot has 32 bytes. Between one and two thirds of the slots are taken: 48 to 96 bytes per input.
 */
export class KnownInputs {
  #slots: Uint32Array;
  #count = 0;
  readonly #outcomes: Outcome[] = ['ok'];
  /** The latest path and its hash: callers look up, mark and set the same path in turn. */
  #latest: string | undefined;
  readonly #hash = new Uint32Array(HASH_WORDS);

  constructor(expected = 0) {
    this.#slots = new Uint32Array(WORDS * slotsFor(expected));
  }

  get size(): number {
    return this.#count;
  }

  find(path: string): KnownInput | undefined {
    const slots = this.#slots;
    const at = this.#slotOf(this.#hashOf(path));
    if (slots[at + OUTCOME] === 0) return undefined;
    return {
      outcome: this.#outcomes[(slots[at + OUTCOME]! & ~FLAGS) - 1]!,
      shard: slots[at + SHARD]!,
      isSeen: (slots[at + OUTCOME]! & SEEN) !== 0,
      isAs: (stamp) => {
        const isHashed = (slots[at + OUTCOME]! & HASHED) !== 0;
        if (isHashed && stamp.sha256 === null) return false;
        const [high, low] = stampHash(isHashed ? stamp : { ...stamp, sha256: null });
        return slots[at + STAMP] === high && slots[at + STAMP + 1] === low;
      },
    };
  }

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
    const hashed = stamp === null || stamp.sha256 === null ? 0 : HASHED;
    this.#slots.set([high, low, shard, (this.#numberOf(outcome) | seen | hashed) >>> 0], at + STAMP);
  }

  /** Changes the outcome of a known input. */
  fail(path: string, outcome: Outcome): void {
    const at = this.#slotOf(this.#hashOf(path)) + OUTCOME;
    this.#slots[at] = (this.#numberOf(outcome) | (this.#slots[at]! & FLAGS)) >>> 0;
  }

  /** Remembers that this run has seen an input, before its outcome is known. */
  reserve(path: string): void {
    this.set(path, 'ok', null, 0);
    this.markSeen(path);
  }

  /** Marks a known input as seen in this run. Returns whether it was marked already. */
  markSeen(path: string): boolean {
    const at = this.#slotOf(this.#hashOf(path)) + OUTCOME;
    const value = this.#slots[at]!;
    this.#slots[at] = (value | SEEN) >>> 0;
    return (value & SEEN) !== 0;
  }

  #hashOf(path: string): Uint32Array {
    if (this.#latest !== path) hashText((this.#latest = path), this.#hash);
    return this.#hash;
  }

  #numberOf(outcome: Outcome): number {
    const known = this.#outcomes.indexOf(outcome);
    return known >= 0 ? known + 1 : this.#outcomes.push(outcome);
  }

  /** Returns the slot of an input, or the free slot where it belongs. Collisions go to the next slot. */
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

const WORD = 2 ** 32;

/** Two words of the content's hash if it is known, otherwise size and time, mixed because they can be longer than a word. */
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
