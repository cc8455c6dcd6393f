/** What tests of sources share. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { SourceItem } from '../../src/photos/feeds/items/source-item.js';
import { openSource, type EmbedSource } from '../../src/datasets/sources/open-source.js';
import { SOURCE_DEFAULTS, type SourceOptions } from '../../src/photos/feeds/items/source-options.js';
import { scratchFolder } from './fixtures.js';

/** A folder with these files, whose content does not matter. */
export function folderWith(...files: string[]): string {
  const folder = scratchFolder();
  for (const file of files) {
    mkdirSync(join(folder, file, '..'), { recursive: true });
    writeFileSync(join(folder, file), 'x');
  }
  return folder;
}

/** All items of a source. */
export async function itemsOf(
  source: EmbedSource,
  options: Partial<SourceOptions> = {},
): Promise<SourceItem[]> {
  const { items, error } = await untilError(source, options);
  if (error !== undefined) throw error as Error;
  return items;
}

/** The items of a source up to its failure. */
export async function untilError(
  source: EmbedSource,
  options: Partial<SourceOptions> = {},
): Promise<{ items: SourceItem[]; error?: unknown }> {
  const items: SourceItem[] = [];
  try {
    for await (const item of openSource(source, { ...SOURCE_DEFAULTS, ...options })) items.push(item);
    return { items };
  } catch (error) {
    return { items, error };
  }
}

/** How the dataset names the items. */
export async function pathsOf(
  source: EmbedSource,
  options: Partial<SourceOptions> = {},
): Promise<(string | null)[]> {
  return (await itemsOf(source, options)).map(({ path }) => path);
}

/** What the loader would hand to a decoder. */
export async function bytesOf({ image }: SourceItem): Promise<Uint8Array> {
  if (typeof image === 'function') return image();
  return typeof image === 'string' ? readFileSync(image) : image;
}

/** Bytes in pieces. */
export async function* inPieces(bytes: Uint8Array, length: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) {
    await Promise.resolve();
    yield bytes.subarray(at, at + length);
  }
}
