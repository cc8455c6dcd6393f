/** The module of `wasm/resample.ts`, started. */
import { RESAMPLE_WASM } from './resample-wasm.js';

/** What `wasm/resample.ts` exports. */
export interface SimdModule {
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
}

/** The members of `WebAssembly` in use: neither Node's types of version 20 nor ECMAScript's declare it. */
export interface WebAssemblyApi {
  readonly validate: (bytes: Uint8Array) => boolean;
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (module: object) => { readonly exports: unknown };
}

/** Starts the module; null where there is no WebAssembly, none with SIMD, or no address space for its memory (`ulimit -v`). */
export function startSimdModule(
  api: WebAssemblyApi | undefined = (globalThis as { WebAssembly?: WebAssemblyApi }).WebAssembly,
): SimdModule | null {
  if (!api) return null;
  const bytes = Buffer.from(RESAMPLE_WASM, 'base64');
  if (!api.validate(bytes)) return null;
  try {
    return new api.Instance(new api.Module(bytes)).exports as SimdModule;
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}
