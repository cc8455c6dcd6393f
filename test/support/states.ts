/** Files of weights for tests. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import type { StateDict } from '../../src/model/parameters/state-dict.js';
import type { Tensor } from '../../src/tensor/tensor.js';
import { fixturePath } from './fixtures.js';

/** A file of test/fixtures/parameters. Those that are compressed are unpacked into the scratch folder. */
export function stateFixture(name: string, scratch: string): string {
  const path = fixturePath(`parameters/${name}`);
  if (existsSync(path)) return path;
  const unpacked = join(scratch, basename(name));
  if (!existsSync(unpacked)) writeFileSync(unpacked, gunzipSync(readFileSync(`${path}.gz`)));
  return unpacked;
}

/** All tensors of a state dict, in its order. */
export async function readAll(state: StateDict): Promise<[string, Tensor][]> {
  const tensors: [string, Tensor][] = [];
  for (const [key, tensor] of state) tensors.push([key, await tensor.read()]);
  return tensors;
}

/** The bytes of a safetensors file. */
export function safetensorsBytes(header: unknown, data: Uint8Array): Buffer {
  const text = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, data]);
}
