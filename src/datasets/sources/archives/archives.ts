/** Archives of images: one, or several that a pattern matches. */
import { stat } from 'node:fs/promises';
import { reasonOf } from '../../../base/errors.js';
import type { SourceItem } from '../../../photos/feeds/items/source-item.js';
import { findMatches, type Match, type Pattern } from '../folders/pattern.js';
import { unavailableImage } from '../../../photos/images/file/image-errors.js';
import { asInvalidSource, invalidSource } from '../items/source-errors.js';
import type { UnreadFiles } from '../items/unread-files.js';
import { listTar } from './tar.js';
import { SharedFile } from '../../../base/files/shared-file.js';
import { listZipEntries, locateZipEntry, readZipEntry, type ZipEntry } from '../../../base/files/zip-file.js';
import { archiveKind, itemOfArchive, nameEntry, refuseSize, type ImageEntry } from './archive-entry.js';

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

/**
 * Lists the images in a zip, in the order of its directory, by extension. The folder `__MACOSX/` is left out. An image is read
 * and inflated later, when it is embedded, to no more than its stated size.
 *
 * @throws {@link TapirError} `SOURCE_INVALID` if the directory cannot be read, or names what is left out otherwise than its entry does. An entry that is encrypted, compressed by another
 * method than deflate, or longer than 1 GiB is an item with an error.
 */
async function* listZip(path: string, prefix: string, unread: UnreadFiles): AsyncGenerator<SourceItem> {
  const file = new SharedFile(path);
  try {
    for await (const entry of listZipEntries(file)) {
      const { name, rawName } = entry;
      const named =
        name.startsWith('__MACOSX/') || name.endsWith('/')
          ? undefined
          : nameEntry(rawName, prefix, unread, name);
      if (named) yield itemOfEntry(file, entry, named);
      // A damaged name is no reason to leave out an image.
      else if (!name.endsWith('/')) await locateZipEntry(file, entry);
    }
  } catch (error) {
    throw asInvalidSource(path, error);
  }
}

function itemOfEntry(file: SharedFile, entry: ZipEntry, named: ImageEntry): SourceItem {
  const { sizeBytes, packedBytes, modifiedMs } = entry;
  const refusal = named.refusal ?? entry.refusal ?? refuseSize(packedBytes);
  return itemOfArchive({ ...named, refusal }, { sizeBytes, modifiedMs, sha256: null }, async () => {
    try {
      return await readZipEntry(file, entry);
    } catch (cause) {
      throw unavailableImage('IMAGE_UNREADABLE', named.path, reasonOf(cause), { cause });
    }
  });
}
