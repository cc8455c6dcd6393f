/** Networks of the parameters fixtures: exports of one torch model each, two state dicts, and what torch computes. */
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { fixturePath, sharedFixtures } from './fixtures.js';

/** A key of the state dict, and what became of it. */
export interface ExportedKey {
  readonly key: string;
  readonly kind: 'parameter' | 'buffer';
  readonly shape: readonly number[];
  readonly status: string;
  readonly why?: string;
}

export interface Export {
  readonly file: string;
  readonly entries: readonly ExportedKey[];
  readonly load: { readonly possible: boolean; readonly blockers: readonly string[] };
}

export interface ExportedNetwork {
  readonly folder: string;
  readonly input: { readonly seed: string; readonly shape: readonly number[] };
  readonly parameters: readonly string[];
  readonly expected: Readonly<Record<'A' | 'B', { readonly value: readonly number[] }>>;
  readonly exports: readonly Export[];
}

/** Reads a network, its files unpacked: all exports where the larger set of fixtures is, else those in test/fixtures. */
export function exportedNetwork(name: string, scratch: string): ExportedNetwork {
  const source =
    sharedFixtures === undefined
      ? fixturePath(`parameters/${name}`)
      : join(sharedFixtures, 'parameters', name);
  const folder = join(scratch, name);
  mkdirSync(folder, { recursive: true });
  for (const file of readdirSync(source)) {
    const bytes = readFileSync(join(source, file));
    const isPacked = file.endsWith('.gz');
    writeFileSync(join(folder, isPacked ? file.slice(0, -3) : file), isPacked ? gunzipSync(bytes) : bytes);
  }
  const facts = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8')) as Omit<
    ExportedNetwork,
    'folder'
  >;
  const exports = facts.exports.filter(({ file }) => existsSync(join(folder, file)));
  return { ...facts, folder, exports };
}

function mix(hash: number): number {
  let h = hash;
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

function hashOf(text: string): number {
  return Buffer.from(text).reduce((hash, byte) => Math.imul(hash ^ byte, 0x01000193), 0x811c9dc5) >>> 0;
}

/** The numbers from −0.5 to 0.5 that a seed gives, by index. */
export function uniformOf(seed: string): (i: number) => number {
  const hash = hashOf(seed);
  return (i) => mix((Math.imul(i, 0x9e3779b1) + hash) | 0) / 2 ** 32 - 0.5;
}

/** The images that the fixtures were made with: a formula of a seed. */
export function seededImages(seed: string, dims: readonly number[]): Float32Array {
  const [rows, channels, height, width] = dims as [number, number, number, number];
  const blocks = Math.ceil(height / 32);
  const [fine, coarse] = [uniformOf(seed), uniformOf(`${seed}.blocks`)];
  return Float32Array.from({ length: rows * channels * height * width }, (_, i) => {
    const x = i % width;
    const y = Math.floor(i / width) % height;
    const plane = Math.floor(i / (width * height));
    const block = (plane * blocks + (y >> 5)) * blocks + (x >> 5);
    return fine(i) * 2 + coarse(block) * 3;
  });
}
