/** Writes `.npy` files, for the peers in Node. */
import { closeSync, openSync, writeSync } from 'node:fs';

/**
 * @param {string} path
 * @param {readonly number[]} dims
 * @param {readonly Float32Array[]} chunks one after the other, in C order
 */
export function saveNpy(path, dims, chunks) {
  const shape = dims.length === 1 ? `${dims[0]},` : dims.join(', ');
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape}), }`;
  // Magic, version and length take 10 bytes; the data starts at a multiple of 64.
  const header = `${text.padEnd(Math.ceil((text.length + 11) / 64) * 64 - 11)}\n`;
  const start = Buffer.alloc(10);
  start.write('\x93NUMPY\x01', 'latin1');
  start.writeUInt16LE(header.length, 8);
  const file = openSync(path, 'w');
  writeSync(file, start);
  writeSync(file, header);
  for (const { buffer, byteOffset, byteLength } of chunks)
    writeSync(file, new Uint8Array(buffer, byteOffset, byteLength));
  closeSync(file);
}
