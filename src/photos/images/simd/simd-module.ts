/** An instance of the WebAssembly module from `wasm/`, and its memory. */
import { SIMD_BINARY } from './simd-binary.js';

/** The exports of the sources in `wasm/`; addresses and pitches are in bytes. */
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

/** The members of `WebAssembly` that are used; neither the types of Node 20 nor those of ECMAScript declare it. */
export interface WebAssemblyApi {
  readonly validate: (bytes: Uint8Array) => boolean;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (
    module: object,
    imports?: object,
  ) => { readonly exports: Readonly<Record<string, unknown>> };
  readonly Table: new (descriptor: object) => {
    get(slot: number): unknown;
    set(slot: number, value: unknown): void;
  };
}

const PAGE_BYTES = 65_536;
/**
 * 16 MiB. WebAssembly memory never shrinks, so this is the most that a thread keeps; `scripts/wasm.js` compiles the same limit
 * into the module. Photos need 0.5 to 1 MiB. Images that need more, with rows of millions of pixels, are done in JavaScript.
 */
const MAX_PAGES = 256;

/** An instance of the module. Its memory is scratch space: each operation lays it out again. */
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

  get memoryBytes(): number {
    return this.#bytes.length;
  }

  /** The memory, with room for so many bytes; null if it cannot grow so far. Valid until the next call. */
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
 * Starts a new instance.
 *
 * @param api - Replaces the process's `WebAssembly`.
 * @returns Null if the process has no WebAssembly with SIMD, or no address space for its memory (`ulimit -v`).
 */
export function startSimdModule(
  api: Omit<WebAssemblyApi, 'Table'> | undefined = ownWebAssembly(),
): SimdModule | null {
  if (!api) return null;
  const bytes = Buffer.from(SIMD_BINARY, 'base64');
  if (!api.validate(bytes)) return null;
  try {
    return new SimdModule(new api.Instance(new api.Module(bytes)).exports as unknown as SimdExports);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

/** The process's own; undefined if it has none. */
export function ownWebAssembly(): WebAssemblyApi | undefined {
  return (globalThis as { WebAssembly?: WebAssemblyApi }).WebAssembly;
}

let shared: SimdModule | null | undefined;

/** The thread's instance, started by the first call; null as in {@link startSimdModule}. */
export function sharedSimdModule(): SimdModule | null {
  if (shared === undefined) shared = startSimdModule();
  return shared;
}
