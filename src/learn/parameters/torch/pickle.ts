/**
 * Reads pickles, the format in which Python writes objects. A pickle is a program; this machine runs the opcodes that build plain
 * values, and calls nothing but the builders that it is given. Opcodes: https://github.com/python/cpython/blob/main/Lib/pickletools.py
 */

import { WorkLimit } from '../../../base/files/work-limit.js';

/**
 * A global that a pickle may call: makes a value from its arguments, and charges the limit for each item that it touches. Throws if they
 * do not fit.
 */
export type PickleBuilder = (args: readonly unknown[], limit: WorkLimit) => unknown;

/** What a pickle may refer to outside itself. */
export interface PickleWorld {
  /** Returns what a global such as `torch.Size` stands for. Throws if the pickle must not use it. */
  readonly findGlobal: (name: string) => unknown;
  /** Returns what a persistent id stands for, for example a storage in another file. */
  readonly findPersistent: (id: unknown) => unknown;
}

/** Longer integers are refused. The longest one that torch writes is a magic number of 10 bytes. */
const MAX_INTEGER_BYTES = 64;

/** Enough for 18 000 tensors. */
const MAX_STEPS = 2 ** 20;
/** Dicts, bytes, long integers and globals count as several steps: they take more memory or time than others. */
const STEPS_OF_LARGE = 8;
const STEPS_OF_CALL = 4;

/** What a pickle that lacks its end throws. */
export class PickleCutError extends Error {
  constructor() {
    super('its pickle ends early');
  }
}

/** A value, and where the pickle that gave it ends. */
export interface PickledValue {
  readonly value: unknown;
  /** The byte after the pickle. */
  readonly end: number;
}

/**
 * Runs a pickle and returns its value: lists and tuples become arrays, dicts maps, integers of more than 53 bits bigints.
 *
 * @param start - Where the pickle starts in the bytes.
 * @param limit - For the pickles of one file together: see {@link pickleLimit}.
 * @throws PickleCutError if the bytes end before the pickle; Error if it is damaged, or uses what the world does not give.
 */
export function readPickle(
  bytes: Buffer,
  world: PickleWorld,
  start = 0,
  limit: WorkLimit = pickleLimit(),
): PickledValue {
  const machine = new PickleMachine(bytes, world, start, limit);
  for (;;) {
    limit.spend(1);
    const at = machine.position;
    const code = machine.takeByte();
    if (code === STOP) return { value: machine.pop(), end: machine.position };
    const run = OPCODES[code];
    if (!run)
      throw new Error(
        `its pickle has opcode 0x${code.toString(16)} at byte ${at}, which torch.save never writes`,
      );
    run(machine);
  }
}

/** The work that the pickles of one file may ask for. */
export function pickleLimit(): WorkLimit {
  return new WorkLimit('its pickle', MAX_STEPS);
}

/** Stands for all keys of dicts that are not text: nothing is looked up by them, and a file can choose numbers that slow a Map down. */
const OTHER_KEY = Symbol('a key that is not text');

class PickleMachine {
  readonly world: PickleWorld;
  readonly limit: WorkLimit;
  readonly #bytes: Buffer;
  position: number;
  readonly #stack: unknown[] = [];
  /** Lengths of the stack where marks were set. */
  readonly #marks: number[] = [];
  readonly memo: Map<number, unknown> = new Map();

  constructor(bytes: Buffer, world: PickleWorld, start: number, limit: WorkLimit) {
    this.#bytes = bytes;
    this.world = world;
    this.position = start;
    this.limit = limit;
  }

  /** Takes the next bytes of the pickle. */
  take(length: number): Buffer {
    const end = this.position + length;
    if (end > this.#bytes.length) throw new PickleCutError();
    const taken = this.#bytes.subarray(this.position, end);
    this.position = end;
    return taken;
  }

  takeByte(): number {
    const byte = this.#bytes[this.position++];
    if (byte === undefined) throw new PickleCutError();
    return byte;
  }

  /** Takes an unsigned integer of 2 or 4 bytes. */
  takeUint(bytes: 2 | 4): number {
    return this.take(bytes).readUIntLE(0, bytes);
  }

  /** Takes a length of 8 bytes. */
  takeLength(): number {
    return Number(this.take(8).readBigUInt64LE());
  }

  takeText(length: number): string {
    return this.take(length).toString('utf8');
  }

  /** Takes a line, without its end. */
  takeLine(): string {
    const end = this.#bytes.indexOf(10, this.position);
    const line = this.takeText(end < 0 ? Infinity : end - this.position);
    this.position++;
    return line;
  }

  push(value: unknown): void {
    this.#stack.push(value);
  }

  pop(): unknown {
    if (this.#stack.length <= (this.#marks.at(-1) ?? 0))
      throw new Error('its pickle takes a value that is not there');
    return this.#stack.pop();
  }

  top(): unknown {
    const value = this.pop();
    this.push(value);
    return value;
  }

  mark(): void {
    this.#marks.push(this.#stack.length);
  }

  /** Takes the values since the last mark. */
  popMark(): unknown[] {
    const start = this.#marks.pop();
    if (start === undefined) throw new Error('its pickle ends a list that it has not begun');
    return this.#stack.splice(start);
  }

  popMany(count: number): unknown[] {
    return Array.from({ length: count }, () => this.pop()).reverse();
  }

  remember(index: number): void {
    // Python counts from 0, or from 1. A Map is slow with numbers that a file chooses.
    if (index > this.memo.size + 1)
      throw new Error(`its pickle stores value ${index} after ${this.memo.size} values`);
    this.memo.set(index, this.top());
  }

  recall(index: number): void {
    if (!this.memo.has(index))
      throw new Error(`its pickle refers to value ${index}, which it has not stored`);
    this.push(this.memo.get(index));
  }
}

function takeInteger(machine: PickleMachine, length: number): number | bigint {
  machine.limit.spend(STEPS_OF_LARGE);
  if (length > MAX_INTEGER_BYTES) throw new Error(`its pickle has an integer of ${length} bytes`);
  if (length === 0) return 0;
  const hex = Buffer.from(machine.take(length)).reverse().toString('hex');
  const value = BigInt.asIntN(length * 8, BigInt(`0x${hex}`));
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

function makeDict(machine: PickleMachine): Map<unknown, unknown> {
  machine.limit.spend(STEPS_OF_LARGE);
  return new Map();
}

function takeBytes(machine: PickleMachine, length: number): Buffer {
  machine.limit.spend(STEPS_OF_LARGE);
  return machine.take(length);
}

function findGlobal(machine: PickleMachine, name: string): unknown {
  machine.limit.spend(STEPS_OF_LARGE);
  return machine.world.findGlobal(name);
}

/** Sets items of the dict on top of the stack. */
function setItems(machine: PickleMachine, items: readonly unknown[]): void {
  const dict = machine.top();
  if (!(dict instanceof Map)) throw new Error('its pickle sets an item of something that is not a dict');
  if (items.length % 2 === 1) throw new Error('its pickle has a key without a value');
  for (let i = 0; i < items.length; i += 2) setItem(dict, items[i], items[i + 1]);
}

/** Sets an item of a dict. */
export function setItem(dict: Map<unknown, unknown>, key: unknown, value: unknown): void {
  dict.set(typeof key === 'string' ? key : OTHER_KEY, value);
}

/** Adds items to the list on top of the stack. */
function addItems(machine: PickleMachine, items: readonly unknown[]): void {
  const list = machine.top();
  if (!Array.isArray(list)) throw new Error('its pickle appends to something that is not a list');
  for (const item of items) list.push(item);
}

function callBuilder(machine: PickleMachine): void {
  machine.limit.spend(STEPS_OF_CALL);
  const args = machine.pop();
  const builder = machine.pop();
  if (typeof builder !== 'function' || !Array.isArray(args))
    throw new Error('its pickle calls something that is not a function');
  machine.push((builder as PickleBuilder)(args, machine.limit));
}

/** Ignores the attributes of a dict: torch keeps versions of modules there. */
function dropAttributes(machine: PickleMachine): void {
  machine.pop();
  if (!(machine.top() instanceof Map))
    throw new Error('its pickle sets attributes of something that is not a dict');
}

const STOP = 0x2e;

/** The opcodes that torch.save writes with pickle protocols 2 to 5. */
const OPCODES: Readonly<Record<number, (machine: PickleMachine) => void>> = {
  // Protocol and frame: nothing depends on them.
  0x80: (machine) => void machine.takeByte(),
  0x95: (machine) => void machine.take(8),
  // Constants and numbers.
  0x4e: (machine) => machine.push(null),
  0x88: (machine) => machine.push(true),
  0x89: (machine) => machine.push(false),
  0x4a: (machine) => machine.push(machine.take(4).readInt32LE()),
  0x4b: (machine) => machine.push(machine.takeByte()),
  0x4d: (machine) => machine.push(machine.takeUint(2)),
  0x8a: (machine) => machine.push(takeInteger(machine, machine.takeByte())),
  0x8b: (machine) => machine.push(takeInteger(machine, machine.takeUint(4))),
  0x47: (machine) => machine.push(machine.take(8).readDoubleBE()),
  // Texts and bytes.
  0x58: (machine) => machine.push(machine.takeText(machine.takeUint(4))),
  0x8c: (machine) => machine.push(machine.takeText(machine.takeByte())),
  0x8d: (machine) => machine.push(machine.takeText(machine.takeLength())),
  0x54: (machine) => machine.push(machine.takeText(machine.takeUint(4))),
  0x55: (machine) => machine.push(machine.takeText(machine.takeByte())),
  0x42: (machine) => machine.push(takeBytes(machine, machine.takeUint(4))),
  0x43: (machine) => machine.push(takeBytes(machine, machine.takeByte())),
  // Lists and tuples.
  0x28: (machine) => machine.mark(),
  0x5d: (machine) => machine.push([]),
  0x29: (machine) => machine.push([]),
  0x6c: (machine) => machine.push(machine.popMark()),
  0x74: (machine) => machine.push(machine.popMark()),
  0x85: (machine) => machine.push(machine.popMany(1)),
  0x86: (machine) => machine.push(machine.popMany(2)),
  0x87: (machine) => machine.push(machine.popMany(3)),
  0x61: (machine) => addItems(machine, [machine.pop()]),
  0x65: (machine) => addItems(machine, machine.popMark()),
  // Dicts.
  0x7d: (machine) => machine.push(makeDict(machine)),
  0x64: (machine) => {
    const items = machine.popMark();
    machine.push(makeDict(machine));
    setItems(machine, items);
  },
  0x73: (machine) => setItems(machine, machine.popMany(2)),
  0x75: (machine) => setItems(machine, machine.popMark()),
  // The memo.
  0x71: (machine) => machine.remember(machine.takeByte()),
  0x72: (machine) => machine.remember(machine.takeUint(4)),
  0x94: (machine) => machine.remember(machine.memo.size),
  0x68: (machine) => machine.recall(machine.takeByte()),
  0x6a: (machine) => machine.recall(machine.takeUint(4)),
  // Globals and objects.
  0x63: (machine) => {
    const module = machine.takeLine();
    machine.push(findGlobal(machine, `${module}.${machine.takeLine()}`));
  },
  0x93: (machine) => {
    const [module, name] = machine.popMany(2);
    if (typeof module !== 'string' || typeof name !== 'string')
      throw new Error('its pickle names a global with something that is not text');
    machine.push(findGlobal(machine, `${module}.${name}`));
  },
  0x51: (machine) => machine.push(machine.world.findPersistent(machine.pop())),
  0x52: callBuilder,
  0x62: dropAttributes,
};
