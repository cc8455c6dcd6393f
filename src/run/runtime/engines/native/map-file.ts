/** Files as native memory, without reading them. */
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import type { Koffi } from './koffi.js';

/** The content of a file in memory. */
export interface MappedFile {
  readonly address: bigint;
  readonly bytes: number;
  /** Gives the memory back. Nothing may read it any more. */
  free(): void;
}

const PROT_READ_WRITE = 3;
/** Writes stay in this process. */
const MAP_PRIVATE = 2;
const FAILED = 2n ** 64n - 1n;

/** Returns a function that maps files. Where the system is not Linux, it reads them. The content must not change as long as it is mapped. */
export function bindMapFile(koffi: Koffi): (path: string) => MappedFile {
  if (process.platform !== 'linux') return (path) => readWhole(koffi, path);
  const library = koffi.load('libc.so.6');
  const map = library.func('mmap', 'void *', ['void *', 'size_t', 'int', 'int', 'int', 'int64']);
  const unmap = library.func('munmap', 'int', ['void *', 'size_t']);
  return (path) => {
    const file = openSync(path, 'r');
    try {
      const bytes = fstatSync(file).size;
      const address = map(null, bytes, PROT_READ_WRITE, MAP_PRIVATE, file, 0) as bigint;
      if (address === FAILED) return readWhole(koffi, path);
      return { address, bytes, free: () => void unmap(address, bytes) };
    } finally {
      closeSync(file);
    }
  };
}

function readWhole(koffi: Koffi, path: string): MappedFile {
  const content = readFileSync(path);
  // The function holds the content.
  return { address: koffi.address(content), bytes: content.byteLength, free: () => void content };
}
