/** Archives of images: one, or several that a pattern matches. */
import { stat } from 'node:fs/promises';
import { reasonOf } from '../../../base/errors.js';
import type { SourceItem } from '../items/source-item.js';
import { findMatches, type Match, type Pattern } from '../folders/pattern.js';
import { invalidSource } from '../items/source-errors.js';
import type { UnreadFiles } from '../items/unread-files.js';
import { listTar } from './tar.js';
import { listZip } from './zip.js';

/** The kind of archive that a file name says; undefined for other files. */
export function archiveKind(name: string): 'tar' | 'zip' | undefined {
  if (/\.zip$/i.test(name)) return 'zip';
  return /\.(tar|tgz|tar\.gz)$/i.test(name) ? 'tar' : undefined;
}

/** Lists the images in an archive, named as its entries. Throws `SOURCE_INVALID`. */
export function listArchive(path: string, unread: UnreadFiles, prefix = ''): AsyncGenerator<SourceItem> {
  return archiveKind(path) === 'zip' ? listZip(path, prefix, unread) : listTar(path, prefix, unread);
}

/**
 * Lists the images in the archives of a pattern, named `<archive>/<entry>`. One archive is named like several, because the name
 * of an image must not depend on how many archives there are.
 *
 * @throws {@link TapirError} `SOURCE_INVALID`; for a missing archive, before anything is read.
 */
export async function* listShards(
  source: string,
  pattern: Pattern,
  unread: UnreadFiles,
): AsyncGenerator<SourceItem> {
  const shards: Match[] = [];
  for await (const shard of findMatches(pattern)) {
    try {
      if (!(await stat(shard.path)).isFile()) throw new Error('it is not a file');
    } catch (error) {
      throw invalidSource(source, `${shard.name}: ${reasonOf(error)}`, { cause: error });
    }
    shards.push(shard);
  }
  for (const { name, path } of shards) yield* listArchive(path, unread, `${name}/`);
}
