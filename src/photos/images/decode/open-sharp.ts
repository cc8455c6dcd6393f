/** sharp, loaded when the first image needs it. The only import of sharp. */
import type { Sharp, SharpOptions } from 'sharp';
import { TapirError, reasonOf } from '../../../base/errors.js';
import { createRequire, packageRequire } from '../../../base/package.js';

export type { Sharp };

/** Creates a pipeline of sharp. */
export type SharpFactory = (input: Uint8Array | string, options: SharpOptions) => Sharp;

/** The versions of the image decoder. */
export interface DecoderVersions {
  readonly sharp: string;
  readonly libvips: string;
}

/** The native part of sharp, which every thread and both of its module formats share. */
interface NativeSharp {
  concurrency(): number;
  cache(): Readonly<Record<'memory' | 'files' | 'items', { readonly max: number }>>;
}

/** The limits of libvips's cache until sharp is loaded for the first time: MB, files and items. */
const INITIAL_CACHE_LIMIT = 100;

/** Slots of the state that threads share. */
const LOCK = 0;
const OWNS_PROCESS = 1;
/** Longer than any import takes: a thread that ended while it held the lock must not stop the others. */
const LOCK_TIMEOUT_MS = 2000;

let shared = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
let loaded: Promise<SharpFactory> | undefined;
let versions: DecoderVersions | undefined;

/** State for threads of this process to join, so that only one of them loads sharp at a time. */
export function sharpState(): Int32Array {
  return shared;
}

/** Joins the state of another thread; before sharp is opened. */
export function joinSharpState(state: Int32Array): void {
  shared = state as typeof shared;
}

/**
 * Lets this package configure sharp for the whole process: one thread per image, since several images are decoded at once,
 * and no cache. Only for the command, whose process runs nothing else.
 */
export function ownSharp(): void {
  Atomics.store(shared, OWNS_PROCESS, 1);
}

/** Loads sharp, once. Throws `DEPENDENCY_MISSING`. */
export function openSharp(): Promise<SharpFactory> {
  loaded ??= loadSharp();
  return loaded;
}

/** What this thread decodes with; undefined until an image needs it. */
export function decoderVersions(): DecoderVersions | undefined {
  return versions;
}

async function loadSharp(): Promise<SharpFactory> {
  const native = loadNative();
  lock();
  try {
    const before = native && settingsOf(native);
    // Resets libvips's cache and number of threads, each time that a thread or the other module format loads it.
    const { default: sharp } = await import('sharp');
    if (Atomics.load(shared, OWNS_PROCESS) === 1) {
      sharp.concurrency(1);
      sharp.cache(false);
    } else if (before) {
      sharp.concurrency(before.concurrency);
      sharp.cache(before.cache);
    }
    versions = { sharp: sharp.versions.sharp ?? '', libvips: sharp.versions.vips };
    return (input, options) => sharp(input, options);
  } catch (error) {
    throw new TapirError(
      'DEPENDENCY_MISSING',
      `sharp does not load: ${reasonOf(error)}; install it with "npm install sharp"`,
      { details: { package: 'sharp', reason: reasonOf(error) }, cause: error },
    );
  } finally {
    unlock();
  }
}

/** Loading it changes no settings. Undefined if sharp is not installed, or built in another way. */
function loadNative(): NativeSharp | undefined {
  try {
    return createRequire(packageRequire.resolve('sharp'))('./sharp.cjs') as NativeSharp;
  } catch {
    return undefined;
  }
}

/** The process's settings; undefined if they are still libvips's own: then no program has chosen them. */
function settingsOf(native: NativeSharp) {
  const { memory, files, items } = native.cache();
  const limits = [memory.max, files.max, items.max];
  if (limits.every((limit) => limit === INITIAL_CACHE_LIMIT)) return undefined;
  return {
    concurrency: native.concurrency(),
    cache: { memory: memory.max, files: files.max, items: items.max },
  };
}

/** Another thread between the reset and the repair would take the reset values for the program's. */
function lock(): void {
  while (Atomics.compareExchange(shared, LOCK, 0, 1) !== 0) {
    if (Atomics.wait(shared, LOCK, 1, LOCK_TIMEOUT_MS) === 'timed-out') return;
  }
}

function unlock(): void {
  Atomics.store(shared, LOCK, 0);
  Atomics.notify(shared, LOCK);
}
