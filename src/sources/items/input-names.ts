/** The names of inputs: what a dataset knows them by, and what says which part of a sharded one they belong to. */
import { createHash } from 'node:crypto';
import { checkInteger, withDefaults } from '../../base/checks.js';
import type { SourceItem } from './list-folder.js';

/** A source item with the name that its dataset knows it by. */
export interface NamedItem extends SourceItem {
  readonly path: string;
}

/** A part of the inputs. */
export interface Shard {
  /** Which one, from 0 to `count - 1`. */
  readonly index: number;
  /** How many there are, from 1 to 100,000. */
  readonly count: number;
}

const MAX_SHARDS = 100_000;

/** Reads a shard. Throws `OPTION_INVALID`. */
export function checkShard(option: string, given: Shard): Shard {
  const { index, count } = withDefaults<Shard>({ index: -1, count: 0 }, given, option);
  checkInteger(`${option}.count`, count, 1, MAX_SHARDS);
  return { index: checkInteger(`${option}.index`, index, 0, count - 1), count };
}

/** Names what has no name (bytes) by its position in the source: `#0`, `#1`, … */
export async function* nameItems(
  source: AsyncIterable<SourceItem> | Iterable<SourceItem>,
): AsyncGenerator<NamedItem> {
  let position = 0;
  for await (const item of source) {
    yield { ...item, path: item.path ?? nameOf(position) };
    position++;
  }
}

/** The inputs that belong to a shard, in the source's order. */
export async function* takeShare(source: AsyncIterable<SourceItem>, shard: Shard): AsyncGenerator<NamedItem> {
  let position = 0;
  for await (const item of source) {
    if (isOwn(item.path, position, shard)) yield { ...item, path: item.path ?? nameOf(position) };
    position++;
  }
}

/** Whether an input belongs to a shard: by its name, or where it has none (null) by its position in the source. */
export function isOwn(name: string | null, position: number, { index, count }: Shard): boolean {
  return (name === null ? position % count : shardOf(name, count)) === index;
}

/**
 * Which of several shards a named input belongs to: the SHA-256 of the name in UTF-8, read as one big-endian number, modulo their
 * count. It depends on nothing but the name, so an image that is added changes no other's shard.
 */
export function shardOf(name: string, count: number): number {
  const digest = createHash('sha256').update(name).digest();
  // Horner's rule over 16-bit digits: each step stays far below 2^53.
  let remainder = 0;
  for (let at = 0; at < digest.length; at += 2)
    remainder = (remainder * 0x1_0000 + digest.readUInt16BE(at)) % count;
  return remainder;
}

function nameOf(position: number): string {
  return `#${position}`;
}
