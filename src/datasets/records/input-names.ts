/** The names of inputs: a dataset knows each input by its name, and the name decides which shard the input belongs to. */
import { createHash } from 'node:crypto';
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import { checkInteger, withDefaults } from '../../base/checks.js';

/** An input of a source, as far as names matter. */
export interface Nameable {
  /** Null for an input that is given as bytes. */
  readonly path: string | null;
}

/** An input with the name that its dataset knows it by. */
export type Named<Item extends Nameable> = Item & { readonly path: string };

/** One of several shares of the inputs. */
export interface Shard {
  /** From 0 to `count - 1`. */
  readonly index: number;
  /** The number of shards, from 1 to 100,000. */
  readonly count: number;
}

const MAX_SHARDS = 100_000;

/** Checks a shard option. Throws `OPTION_INVALID`. */
export function checkShard(option: string, given: Shard): Shard {
  const { index, count } = withDefaults<Shard>({ index: -1, count: 0 }, given, option);
  checkInteger(`${option}.count`, count, 1, MAX_SHARDS);
  return { index: checkInteger(`${option}.index`, index, 0, count - 1), count };
}

/** A clip has its start beside the path of its frames. */
interface Started {
  readonly path: string | null;
  readonly clipStart?: number | null | undefined;
}

/** What tells an input from all others of its dataset: its path, and the start of a clip. */
export function identityOf({ path, clipStart = null }: Started): string {
  return clipStart === null ? (path ?? '') : `${path ?? ''}\0${clipStart}`;
}

/** {@link identityOf} an item of a source. */
export function identityOfItem({ path, clip }: SourceItem): string {
  return identityOf({ path, clipStart: clip?.start });
}

/** Names all inputs of a source. An input without a path is named by its position: `#0`, `#1`, … */
export async function* nameItems<Item extends Nameable>(
  source: AsyncIterable<Item> | Iterable<Item>,
): AsyncGenerator<Named<Item>> {
  let position = 0;
  for await (const item of source) yield withName(item, position++);
}

/** Names the inputs of a source that belong to a shard, in the source's order. */
export async function* takeShare<Item extends Nameable>(
  source: AsyncIterable<Item>,
  shard: Shard,
): AsyncGenerator<Named<Item>> {
  let position = 0;
  for await (const item of source) {
    if (belongsTo(shard, item.path, position)) yield withName(item, position);
    position++;
  }
}

function withName<Item extends Nameable>(item: Item, position: number): Named<Item> {
  return { ...item, path: item.path ?? `#${position}` };
}

/** Whether an input belongs to a shard. Its name decides; for an input without a name, its position in the source. */
export function belongsTo({ index, count }: Shard, name: string | null, position: number): boolean {
  return (name === null ? position % count : shardOf(name, count)) === index;
}

/**
 * Returns the index of the shard that a named input belongs to: the SHA-256 of the name in UTF-8, read as one big-endian number,
 * modulo the number of shards. It depends only on the name, so adding an image does not move other images to other shards.
 */
export function shardOf(name: string, count: number): number {
  const digest = createHash('sha256').update(name).digest();
  // Horner's rule over 16-bit digits: each step stays far below 2^53.
  let remainder = 0;
  for (let at = 0; at < digest.length; at += 2)
    remainder = (remainder * 0x1_0000 + digest.readUInt16BE(at)) % count;
  return remainder;
}
