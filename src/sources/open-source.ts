/** Whatever images are given as → items, one after the other. */
import { statSync, type Stats } from 'node:fs';
import { basename, extname } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { checkOneOf, invalidOption } from '../base/checks.js';
import { reasonOf } from '../base/errors.js';
import { IMAGE_EXTENSIONS } from '../image/formats/image-format.js';
import { openRecords } from './records/open-records.js';
import { INPUT_FORMATS, type InputFormat } from './records/source-record.js';
import { listImages } from './folders/list-folder.js';
import type { SourceItem } from './items/source-item.js';
import { archiveKind, listArchive, listShards } from './archives/archives.js';
import { itemOfEntry, type EntryPlan } from './items/entries.js';
import { findMatches, isPattern, readPattern, type Pattern } from './folders/pattern.js';
import { isHttpUrl, labelOfUrl } from '../base/http.js';
import { invalidSource } from './items/source-errors.js';
import { LIST_EXTENSIONS, readList } from './lists/read-list.js';
import { SOURCE_DEFAULTS, type SourceOptions } from './items/source-options.js';

/** One image: a path, an http(s) URL, a `file:` URL, or the bytes of the file. */
export type ListedImage = string | URL | Uint8Array;

/** A stream of bytes that names or holds images; paths are relative to the working directory. */
export interface PathStream {
  readonly paths: AsyncIterable<Uint8Array>;
  /**
   * What is in it: a path or URL per line; a JSON object per line, with a path (`column`) or a file as base64 in `image`; an Arrow
   * stream with a column of paths or of files (`column`, else `image`). `auto` looks at the first bytes.
   * @default 'paths'
   */
  readonly format?: InputFormat;
}

/**
 * Images to embed.
 *
 * A string is the path of a folder (searched recursively), an archive (`.tar`, `.tar.gz`, `.tgz`, `.zip`), a list (`.txt`,
 * `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.parquet`) or an image; or a pattern of images or archives (`photos/*.jpg`,
 * `shard-{000..009}.tar`).
 */
export type EmbedSource = string | PathStream | Iterable<ListedImage> | AsyncIterable<ListedImage>;

/** What a source turned out to be. */
export interface SourceDescription {
  readonly kind: 'folder' | 'glob' | 'list' | 'tar' | 'zip' | 'stream' | 'iterable';
  /** As it was given; null for streams and iterables. */
  readonly location: string | null;
}

/** The items of a source, in an order that depends on nothing but the source. */
export interface OpenedSource extends AsyncIterable<SourceItem> {
  readonly description: SourceDescription;
}

/**
 * Finds out what a source is. Nothing of it is read before its items are taken.
 *
 * @param signal - Stops requests that are under way.
 * @returns The items. Files, folders and archives can be gone through again, streams and iterators cannot.
 * @throws {@link TapirError} `SOURCE_INVALID` for a string that names nothing that can be embedded; `OPTION_INVALID` for
 * anything else that is no source. While items are taken: `SOURCE_INVALID` where the source is damaged, after the items
 * before; `OPTION_INVALID` for a URL without `allowHttp`.
 */
export function openSource(
  source: EmbedSource,
  options: SourceOptions = SOURCE_DEFAULTS,
  signal?: AbortSignal,
): OpenedSource {
  if (typeof source === 'string') return openLocation(source, options, signal);
  if (source === null || typeof source !== 'object') throw notASource(source);
  if ('paths' in source) {
    if (!isAsyncIterable(source.paths))
      throw invalidOption('source', 'a stream of bytes as paths', source.paths);
    const format = checkOneOf('format', source.format ?? 'paths', INPUT_FORMATS);
    return opened('stream', null, () => readItems(source.paths, format, options, signal));
  }
  if (source instanceof Uint8Array)
    throw invalidOption('source', 'an iterable: put a single image in a list', source);
  if (!(Symbol.iterator in source || Symbol.asyncIterator in source)) throw notASource(source);
  if (source instanceof Readable && !source.readableObjectMode)
    throw invalidOption('source', '{ paths: stream } if a stream of bytes lists the images', source);
  return opened('iterable', null, () => readIterable(source, { ...options, base: '', signal }));
}

/** What a string may name, for messages. */
const ACCEPTED =
  'give a folder, an image, a list (.txt, .csv, .tsv, .jsonl, .ndjson, .parquet), an archive (.tar, .tar.gz, .tgz, .zip) or a pattern (photos/*.jpg, shard-{000..009}.tar)';

function openLocation(source: string, options: SourceOptions, signal?: AbortSignal): OpenedSource {
  const stats = statOf(source);
  if (!stats && isHttpUrl(source))
    throw invalidSource(labelOfUrl(source), 'it is a URL; put it in a list, or in an array');
  if (!stats && isPattern(source)) return openPattern(source);
  if (!stats) throw invalidSource(source, `no such file or folder; ${ACCEPTED}`);
  if (stats.isDirectory()) return opened('folder', source, () => listImages(source));
  if (!stats.isFile()) throw invalidSource(source, `it is neither a folder nor a regular file; ${ACCEPTED}`);
  const archive = archiveKind(source);
  if (archive) return opened(archive, source, () => listArchive(source));
  const extension = extname(source).toLowerCase();
  if (LIST_EXTENSIONS.has(extension)) return opened('list', source, () => readList(source, options, signal));
  if (IMAGE_EXTENSIONS.has(extension))
    return opened('list', source, () => iterate({ path: basename(source), image: source }));
  throw invalidSource(source, `it is a file of another kind; ${ACCEPTED}`);
}

/** Undefined if there is nothing of that name. */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    // A pattern is no path that could be too long or lead through a file.
    if (isPattern(path)) return undefined;
    throw invalidSource(path, reasonOf(error), { cause: error });
  }
}

function openPattern(source: string): OpenedSource {
  const pattern = readPattern(source);
  const kinds = new Set(pattern.patterns.map(archiveKind));
  const [kind] = kinds;
  if (kinds.size > 1)
    throw invalidSource(source, 'it means archives of one kind and other files; give one kind');
  return kind
    ? opened(kind, source, () => listShards(source, pattern))
    : opened('glob', source, () => listMatches(pattern));
}

/** Images only, by extension, unless the pattern says another one. */
async function* listMatches(pattern: Pattern): AsyncGenerator<SourceItem> {
  const isAny = pattern.isList || pattern.patterns.every((one) => /\.[^*?[\]()/.]+$/.test(one));
  for await (const { name, path } of findMatches(pattern))
    if (isAny || IMAGE_EXTENSIONS.has(extname(name).toLowerCase()))
      yield { path: name, image: path, ...(pattern.isList ? {} : { listed: true }) };
}

async function* readItems(
  bytes: AsyncIterable<Uint8Array>,
  format: InputFormat,
  options: SourceOptions,
  signal: AbortSignal | undefined,
): AsyncGenerator<SourceItem> {
  const { records } = await openRecords(bytes, 'the stream of images', format, options, signal);
  for await (const { item } of records) yield item;
}

async function* readIterable(
  source: Iterable<unknown> | AsyncIterable<unknown>,
  plan: EntryPlan,
): AsyncGenerator<SourceItem> {
  for await (const image of source) {
    const item = itemOfImage(image, plan);
    if (!item) throw invalidOption('source', 'made of paths, URLs or bytes', image);
    yield item;
  }
}

/**
 * The item of a single image; undefined for anything else.
 *
 * @throws {@link TapirError} `OPTION_INVALID` for a URL of another kind, or of http(s) without `allowHttp`.
 */
export function itemOfImage(image: unknown, plan: EntryPlan): SourceItem | undefined {
  if (image instanceof Uint8Array) return { path: null, image };
  if (image instanceof URL) return itemOfUrlObject(image, plan);
  return typeof image === 'string' && image !== '' ? itemOfEntry(image, plan) : undefined;
}

function itemOfUrlObject(url: URL, plan: EntryPlan): SourceItem {
  if (url.protocol === 'file:') return itemOfEntry(fileURLToPath(url), plan);
  if (isHttpUrl(url.href)) return itemOfEntry(url.href, plan);
  throw invalidOption('source', 'made of paths, bytes or URLs of http, https or file', labelOfUrl(url.href));
}

async function* iterate(item: SourceItem): AsyncGenerator<SourceItem> {
  yield item;
}

function opened(
  kind: SourceDescription['kind'],
  location: string | null,
  items: () => AsyncGenerator<SourceItem>,
): OpenedSource {
  return { description: { kind, location }, [Symbol.asyncIterator]: items };
}

function isAsyncIterable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function notASource(source: unknown): Error {
  return invalidOption(
    'source',
    'a path, a pattern, a stream of paths, or an iterable of paths or bytes',
    source,
  );
}
