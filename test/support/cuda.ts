/** CUDA as `tapir engines install cuda` leaves it, with libraries of headers alone. */
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { ENGINE_PACKAGES } from '../../src/base/engine-packages.js';
import { makeLibrary } from './library.js';
import { CUDA_PLACES } from './wheels.js';

/** What onnxruntime's provider needs. */
export const PROVIDER_NEEDS = [
  'libcublasLt.so.13',
  'libcublas.so.13',
  'libcurand.so.10',
  'libcudart.so.13',
  'libcuda.so.1',
  'libc.so.6',
];

/** The provider of a version: it says what it needs, and the version as a text. */
export function makeProvider(version: string): Uint8Array {
  return Buffer.concat([makeLibrary({ needed: PROVIDER_NEEDS }), Buffer.from(`\0${version}\0`)]);
}

/** The content of an installed file. */
export function cudaFile(name: string): Uint8Array {
  if (name.endsWith('_providers_cuda.so')) return makeProvider(ENGINE_PACKAGES.cuda.version);
  return makeLibrary({ needed: ['libc.so.6'], soname: name.split('/').at(-1)! });
}

/**
 * Writes an installed CUDA into the folder of the engines.
 *
 * @param engines - Folder of all engines.
 * @returns Its folder.
 */
export function playCuda(engines: string, version: string = ENGINE_PACKAGES.cuda.version): string {
  const folder = join(engines, `cuda-${version}`);
  for (const place of CUDA_PLACES) {
    mkdirSync(join(folder, dirname(place)), { recursive: true });
    writeFileSync(join(folder, place), cudaFile(place));
  }
  const sizes = Object.fromEntries(CUDA_PLACES.map((place) => [place, statSync(join(folder, place)).size]));
  const wheels = ENGINE_PACKAGES.cuda.packages.map((one) => ({
    filename: `${one.project.replaceAll('-', '_')}-${one.version}-py3-none-manylinux_2_17_x86_64.whl`,
    sha256: 'a'.repeat(64),
  }));
  writeFileSync(join(folder, 'engine.json'), JSON.stringify({ wheels, sizes }));
  return folder;
}

/** A folder with the names of libraries; each file is a library of headers. */
export function playFolder(folder: string, names: readonly string[]): string {
  mkdirSync(folder, { recursive: true });
  for (const name of names) writeFileSync(join(folder, name), makeLibrary({ needed: [] }));
  return folder;
}
