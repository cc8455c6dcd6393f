/** The module of `wasm/`, started, and its memory. */
import { SIMD_BINARY } from './simd-binary.js';

/** What the sources in `wasm/` export; addresses and pitches in bytes. */
interface SimdExports {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number };
  columns(
    source: number,
    pitch: number,
    rows: number,
    offsets: number,
    weights: number,
    pairs: number,
    width: number,
    target: number,
    targetPitch: number,
  ): void;
  rows(
    source: number,
    pitch: number,
    firstRow: number,
    firsts: number,
    weights: number,
    pairs: number,
    height: number,
    bytes: number,
    target: number,
  ): void;
  normalize(
    source: number,
    pixels: number,
    target: number,
    plane: number,
    ...meanAndStd: [number, number, number, number, number, number]
  ): void;
  startScan(components: number, mcusPerRow: number, restartInterval: number): void;
  setScanInput(from: number, to: number): void;
  scanPosition(): number;
  decodeMcuRow(isAll: boolean): number;
  endsWell(): number;
  upsample(
    kind: number,
    luma: number,
    pitch: number,
    blue: number,
    red: number,
    chromaPitch: number,
    lines: number,
    samples: number,
    firstChroma: number,
    lastChroma: number,
    firstRow: number,
    lastRow: number,
    width: number,
    target: number,
  ): void;
}

/** The members of `WebAssembly` in use: neither Node's types of version 20 nor ECMAScript's declare it. */
export interface WebAssemblyApi {
  readonly validate: (bytes: Uint8Array) => boolean;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
}

const PAGE_BYTES = 65_536;
/**
 * WebAssembly memory never shrinks, so a thread keeps at most this: 16 MiB. It is the module's own limit too
 * (`scripts/wasm.js`). Photos take half a MiB to one; what takes more than this, as rows of millions of pixels do, is left to JavaScript.
 */
const MAX_PAGES = 256;

/** An instance of the module. Its memory is scratch: whoever is called lays it out anew. */
export class SimdModule {
  readonly calls: Omit<SimdExports, 'memory'>;
  readonly #memory: SimdExports['memory'];
  #bytes: Uint8Array;

  /** Use {@link startSimdModule}. */
  constructor(exports: SimdExports) {
    this.calls = exports;
    this.#memory = exports.memory;
    this.#bytes = new Uint8Array(exports.memory.buffer);
  }

  /** Bytes that the instance holds. */
  get memoryBytes(): number {
    return this.#bytes.length;
  }

  /** The memory, with room for so many bytes; null if it cannot have as many. Good until the next call. */
  reserve(bytes: number): Uint8Array | null {
    const pages = Math.ceil(bytes / PAGE_BYTES);
    const missing = pages - this.#bytes.length / PAGE_BYTES;
    if (missing <= 0) return this.#bytes;
    if (pages > MAX_PAGES) return null;
    try {
      this.#memory.grow(missing);
    } catch (error) {
      if (error instanceof RangeError) return null;
      throw error;
    }
    this.#bytes = new Uint8Array(this.#memory.buffer);
    return this.#bytes;
  }
}

/**
 * Starts an instance of its own.
 *
 * @param api - Another `WebAssembly` than the process's.
 * @returns Null where there is no WebAssembly, none with SIMD, or no address space for its memory (`ulimit -v`).
 */
export function startSimdModule(api: WebAssemblyApi | undefined = ownWebAssembly()): SimdModule | null {
  if (!api) return null;
  const bytes = Buffer.from(SIMD_BINARY, 'base64');
  if (!api.validate(bytes)) return null;
  try {
    return new SimdModule(new api.Instance(new api.Module(bytes)).exports as SimdExports);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function ownWebAssembly(): WebAssemblyApi | undefined {
  return (globalThis as { WebAssembly?: WebAssemblyApi }).WebAssembly;
}

let shared: SimdModule | null | undefined;

/** The thread's instance, started at the first call; null as of {@link startSimdModule}. */
export function sharedSimdModule(): SimdModule | null {
  if (shared === undefined) shared = startSimdModule();
  return shared;
}
