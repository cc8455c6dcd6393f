/** A group whose sums a parent process takes: frames of a header and bytes, over one socket. One call is under way at a time. */
import type { OnReadOpts, Socket } from 'node:net';
import { endianness } from 'node:os';
import { reasonOf } from '../../../base/errors.js';
import { bytesOf } from '../../../onnx/tensor/bits.js';
import { LEFT, rankLost, type ProcessGroup } from './process-group.js';

/**
 * The kind of a frame. A header is {@link MAGIC}, the kind (uint32) and the number of bytes that follow (uint64), in the byte order of the
 * machine. An answer has the kind of its call. `lost` comes unasked, and is the last one.
 */
const KINDS = { hello: 1, sum32: 2, sum64: 3, broadcast: 4, barrier: 5, close: 6, lost: 7 } as const;
type Kind = keyof typeof KINDS;

const MAGIC = 0x7a70_6174;
const HEADER_BYTES = 16;
/** At most, of texts as JSON. */
const TEXT_BYTES = 2 ** 16;
/** Characters of a reason that is sent. */
const REASON_LENGTH = 2000;
/** At most, of a broadcast. */
const BROADCAST_BYTES = 2 ** 32;
/** Bytes that are read at once. */
const READ_BYTES = 2 ** 18;
/** The parent knows of a timeout, and names the rank, before this end gives up. */
const GRACE_MS = 60_000;
/** How long the parent may take to hear that this rank leaves. */
const CLOSE_MS = 5000;
const IS_LITTLE = endianness() === 'LE';

/** A call under way. */
interface Pending {
  readonly kind: Kind;
  /** Where the answer goes, if its length is known; else the most bytes. */
  readonly into: readonly Uint8Array[] | number;
  readonly resolve: (answer: readonly Uint8Array[]) => void;
  readonly reject: (error: Error) => void;
}

/** An answer that is being read. */
interface Incoming {
  readonly kind: Kind;
  readonly into: readonly Uint8Array[];
  /** The array that is being filled, and how far it is. */
  at: number;
  from: number;
}

/** Opens a socket that reads into one buffer. */
type OpenPipe = (onread: OnReadOpts) => Socket;

export class PipeGroup implements ProcessGroup {
  rank = 0;
  size = 1;
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerBytes = 0;
  #incoming: Incoming | undefined;
  #pending: Pending | undefined;
  /** The calls run one after the other. */
  #last: Promise<unknown> = Promise.resolve();
  #failure: Error | undefined;
  #closing: Promise<void> | undefined;

  private constructor(open: OpenPipe, timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    const callback = (count: number, buffer: Uint8Array): boolean => {
      this.#take(buffer.subarray(0, count));
      return true;
    };
    this.#socket = open({ buffer: Buffer.alloc(READ_BYTES), callback });
    const gone = (error?: Error): void =>
      this.#fail(rankLost(this.rank, 'the Python process of this rank has ended', error));
    this.#socket
      .on('error', gone)
      .on('end', gone)
      .on('close', () => gone());
    this.#socket.resume().unref();
  }

  /** @param open - Opens a socket, whose other end answers. */
  static async join(open: OpenPipe, version: string, timeoutMs: number): Promise<PipeGroup> {
    const group = new PipeGroup(open, timeoutMs);
    const hello = Buffer.from(JSON.stringify({ version, timeoutMs }));
    const [answer] = await group.#call('hello', [hello], TEXT_BYTES);
    const { rank, size } = parse(answer!);
    if (!Number.isInteger(rank) || !Number.isInteger(size)) throw group.#garbled('its hello has no rank');
    group.rank = rank as number;
    group.size = size as number;
    return group;
  }

  async sum(arrays: readonly Float64Array[] | readonly Float32Array[], signal?: AbortSignal): Promise<void> {
    const bytes = arrays.map((array) => bytesOf(array));
    await this.#call(arrays[0] instanceof Float64Array ? 'sum64' : 'sum32', bytes, bytes, signal);
  }

  async broadcast(bytes: Uint8Array): Promise<Uint8Array> {
    const [answer] = await this.#call('broadcast', this.rank === 0 ? [bytes] : [], BROADCAST_BYTES);
    return answer!;
  }

  async barrier(): Promise<void> {
    await this.#call('barrier', [], []);
  }

  close(reason: string = LEFT): Promise<void> {
    return (this.#closing ??= this.#close(reason));
  }

  async #close(reason: string): Promise<void> {
    // A call under way ends first: nothing can be taken back of it.
    this.#pending?.reject(rankLost(this.rank, reason));
    this.#pending = undefined;
    if (!this.#socket.destroyed) {
      const isRegular = reason === LEFT;
      const closed = new Promise<void>((resolve) => this.#socket.once('close', resolve));
      this.#failure ??= rankLost(this.rank, reason);
      this.#socket.ref();
      this.#send('close', [
        Buffer.from(JSON.stringify({ reason: reason.slice(0, REASON_LENGTH), isRegular })),
      ]);
      const timer = setTimeout(() => this.#socket.destroy(), CLOSE_MS);
      await closed;
      clearTimeout(timer);
    }
    this.#socket.destroy();
  }

  /** Makes a call after those before it. */
  #call(
    kind: Kind,
    parts: readonly Uint8Array[],
    into: Pending['into'],
    signal?: AbortSignal,
  ): Promise<readonly Uint8Array[]> {
    const result = this.#last.then(() => this.#ask(kind, parts, into, signal));
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #ask(
    kind: Kind,
    parts: readonly Uint8Array[],
    into: Pending['into'],
    signal: AbortSignal | undefined,
  ): Promise<readonly Uint8Array[]> {
    signal?.throwIfAborted();
    if (this.#failure !== undefined) throw this.#failure;
    const late = (): void => this.#fail(rankLost(this.rank, 'its Python process does not answer'));
    const timer = setTimeout(late, Math.min(2 ** 31 - 1, this.#timeoutMs + GRACE_MS));
    const abort = (): void => this.#fail(signal!.reason as Error);
    signal?.addEventListener('abort', abort, { once: true });
    this.#socket.ref();
    try {
      return await new Promise((resolve, reject) => {
        this.#pending = { kind, into, resolve, reject };
        this.#send(kind, parts);
      });
    } finally {
      this.#socket.unref();
      signal?.removeEventListener('abort', abort);
      clearTimeout(timer);
    }
  }

  #send(kind: Kind, parts: readonly Uint8Array[]): void {
    const header = Buffer.alloc(HEADER_BYTES);
    const bytes = parts.reduce((sum, part) => sum + part.length, 0);
    const view = new DataView(header.buffer, header.byteOffset);
    view.setUint32(0, MAGIC, IS_LITTLE);
    view.setUint32(4, KINDS[kind], IS_LITTLE);
    view.setBigUint64(8, BigInt(bytes), IS_LITTLE);
    this.#socket.cork();
    for (const part of [header, ...parts]) this.#socket.write(part);
    this.#socket.uncork();
  }

  /** Reads what comes: headers, and answers into their places. */
  #take(chunk: Uint8Array): void {
    for (let rest = chunk; rest.length > 0 && this.#failure === undefined;) {
      if (!this.#incoming) {
        const part = rest.subarray(0, HEADER_BYTES - this.#headerBytes);
        this.#header.set(part, this.#headerBytes);
        this.#headerBytes += part.length;
        rest = rest.subarray(part.length);
        if (this.#headerBytes === HEADER_BYTES) this.#begin();
      } else {
        const incoming = this.#incoming;
        const array = incoming.into[incoming.at]!;
        const part = rest.subarray(0, array.length - incoming.from);
        array.set(part, incoming.from);
        incoming.from += part.length;
        rest = rest.subarray(part.length);
      }
      this.#pass();
    }
  }

  /** Goes on to the next array that is not full, or ends the answer. */
  #pass(): void {
    const incoming = this.#incoming;
    if (!incoming) return;
    while (incoming.at < incoming.into.length && incoming.from === incoming.into[incoming.at]!.length) {
      incoming.at++;
      incoming.from = 0;
    }
    if (incoming.at === incoming.into.length) this.#finish(incoming);
  }

  /** Reads a header. */
  #begin(): void {
    this.#headerBytes = 0;
    const view = new DataView(this.#header.buffer, this.#header.byteOffset);
    const kind = Object.entries(KINDS).find(([, number]) => number === view.getUint32(4, IS_LITTLE))?.[0];
    const bytes = Number(view.getBigUint64(8, IS_LITTLE));
    const isLost = kind === 'lost';
    if (view.getUint32(0, IS_LITTLE) !== MAGIC || (!isLost && kind !== this.#pending?.kind))
      return this.#fail(this.#garbled('it sent something else'));
    const wanted = isLost ? TEXT_BYTES : this.#pending!.into;
    const isOpen = typeof wanted === 'number';
    const most = isOpen ? wanted : wanted.reduce((sum, { length }) => sum + length, 0);
    if (isOpen ? bytes > most : bytes !== most)
      return this.#fail(this.#garbled(`it sent ${bytes} bytes, ${isOpen ? 'at most ' : ''}${most} were due`));
    this.#incoming = { kind: kind as Kind, into: isOpen ? [new Uint8Array(bytes)] : wanted, at: 0, from: 0 };
  }

  #finish({ kind, into }: Incoming): void {
    this.#incoming = undefined;
    if (kind === 'lost') {
      const { rank, reason } = parse(into[0]!);
      return this.#fail(rankLost(typeof rank === 'number' ? rank : null, String(reason)));
    }
    const { resolve } = this.#pending!;
    this.#pending = undefined;
    resolve(into);
  }

  #garbled(reason: string): Error {
    return rankLost(this.rank, `the answer of its Python process is no answer: ${reason}`);
  }

  /** Ends the call under way, and all later ones. */
  #fail(error: Error): void {
    this.#failure ??= error;
    this.#pending?.reject(error);
    this.#pending = undefined;
  }
}

/** A text of JSON; without fields if it is none. */
function parse(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(Buffer.from(bytes).toString())) as Record<string, unknown>;
  } catch (error) {
    return { reason: reasonOf(error) };
  }
}
