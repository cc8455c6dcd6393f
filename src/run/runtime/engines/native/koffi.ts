/** The foreign function interface. This is the only import of koffi. A lane loads it, never the caller's thread. */

/** An address in native memory. */
export type Address = unknown;

/** The members of koffi that are used here. */
export interface Koffi {
  /** @param path - `null` is the process itself. */
  load(path: string | null, options?: { readonly global?: boolean }): KoffiLibrary;
  struct(members: Readonly<Record<string, unknown>>): unknown;
  pointer(type: unknown): unknown;
  out(type: unknown): unknown;
  proto(result: string, parameters: readonly unknown[]): unknown;
  /** The address of an array's memory. */
  address(array: ArrayBufferView): bigint;
  /** Memory at an address, without a copy. */
  view(address: Address, bytes: number): ArrayBuffer;
  readonly decode: {
    (address: Address, type: 'char', length: -1): string;
    (address: Address, type: unknown): NativeFunction;
  };
  config(): Readonly<Record<string, number>>;
  config(settings: Readonly<Record<string, number>>): unknown;
}

interface KoffiLibrary {
  func(name: string, result: string, parameters: readonly unknown[]): NativeFunction;
}

/** A function of a library. */
export interface NativeFunction {
  (...values: readonly unknown[]): unknown;
  /** Runs on a thread of libuv's pool. The last value is the callback. */
  readonly async: (...values: readonly unknown[]) => void;
}

/** Loads koffi. Throws what Node throws if it is not installed, or not for this system. */
export async function importKoffi(): Promise<Koffi> {
  const { default: koffi } = await import('koffi');
  return koffi as unknown as Koffi;
}

/** Calls a function on a thread of libuv's pool. */
export function callOnPool(native: NativeFunction, values: readonly unknown[]): Promise<unknown> {
  return new Promise((resolve, reject) => {
    native.async(...values, (error: Error | null, result: unknown) => {
      if (error) reject(error);
      else resolve(result);
    });
  });
}
