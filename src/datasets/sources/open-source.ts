/** A source of images, in any of its forms → items. */
import { createReadStream, statSync, type Stats } from 'node:fs';
import { basename, extname } from 'node:path';
import { Readable } from 'node:stream';
import { checkOneOf, invalidOption } from '../../base/checks.js';
import { reasonOf } from '../../base/errors.js';
import { isOneImage, type ImageSource } from '../../photos/images/formats/image-source.js';
import {
  extensionOf,
  kindOfName,
  isImageName,
  unreadAdvice,
} from '../../photos/images/decode/image-names.js';
import { openCarriedTexts } from './records/carried-texts.js';
import { openRecords } from './records/open-records.js';
import { INPUT_FORMATS, type InputFormat } from './records/source-record.js';
import { listImages } from './folders/list-folder.js';
import type { SourceItem } from '../../photos/feeds/items/source-item.js';
import { clipItems } from './items/clip-items.js';
import { withColumns } from './lists/column-names.js';
import { UnreadFiles, type UnreadCounts } from './items/unread-files.js';
import { archiveKind } from './archives/archive-entry.js';
import { listArchive, listShards } from './archives/archives.js';
import { isListedTar, listListedTar } from './archives/listed-tars.js';
import { listTarStream } from './archives/tar.js';
import { itemOfImage } from '../../photos/feeds/items/item-of-image.js';
import { findMatches, isPattern, readPattern, type Pattern } from './folders/pattern.js';
import { isHttpUrl } from '../../base/http/http.js';
import { labelOfUrl } from '../../base/printable.js';
import { invalidSource } from './items/source-errors.js';
import { describeTables, type TableFacts } from './lists/parquet-entries.js';
import { LIST_EXTENSIONS, readList } from './lists/read-list.js';
import { isPhotoRow, itemOfRow, type PhotoRow } from './photo-rows.js';
import {
  SOURCE_DEFAULTS,
  type SourceOptions,
  type SourcePlan,
} from '../../photos/feeds/items/source-options.js';

/** One image of a list, alone or with columns; an http(s) URL with `allowHttp`. */
export type ListedImage = ImageSource | PhotoRow;

/** A stream of bytes that names or contains images. Paths are relative to the working directory. */
export interface PathStream {
  readonly paths: AsyncIterable<Uint8Array>;
  /**
   * Format of the stream. `'paths'`: a path or URL per line. `'jsonl'`: a JSON object per line, with a path (`column`), or a file
   * as base64 in `image`. `'arrow'`: an Arrow stream with a column of paths or of files (`column`, else `image`). `'tar'`: a
   * tar of images, plain or gzipped, named by its entries. `'auto'` decides by the first bytes, and knows no tar.
   * @default 'paths'
   */
  readonly format?: InputFormat;
}

/**
 * Images to embed.
 *
 * Folders, archives and patterns give the files whose extension is that of an image: `.heic` and `.heif` if the optional package
 * libheif-js is installed. Others (JPEG XL, SVG, camera raw, videos, PDF) are counted and not read. Symbolic links to what is listed itself are counted
 * and left out; hard links in a plain tar give the photo that they name.
 *
 * A string is a path or a pattern. A path leads to a folder (searched recursively), an archive (`.tar`, `.tar.gz`, `.tgz`, `.zip`), a list
 * (`.txt`, `.csv`, `.tsv`, `.jsonl`, `.ndjson`, `.parquet`) or an image. A pattern means images, archives or Parquet files (`photos/*.jpg`,
 * `shard-{000..009}.tar`). A Parquet file may hold the images: as bytes, or as `{ bytes, path }`, as Hugging Face's datasets do. Other
 * columns of a list become columns of a dataset's metadata.
 *
 * A named pipe gives a tar. A list may name tars, too, as files or URLs: their images are named `<tar>/<entry>`.
 *
 * Images that are given as bytes have no path: `path` of a result is null, and `index` identifies it. In a dataset they are named by
 * their position: `#0`, `#1`, … A photo with columns ({@link PhotoRow}) names them: `{ path: 'a.jpg', label: 'cat' }`,
 * `{ image: bytes, path: 'a', label: 'cat' }`.
 *
 * Bytes and pixels in an array must not change until the run has ended. Those of other iterables are copied, so a generator may fill one
 * buffer again and again.
 */
export type EmbedSource = string | PathStream | Iterable<ListedImage> | AsyncIterable<ListedImage>;

/** What a source turned out to be. */
export interface SourceDescription {
  readonly kind: 'folder' | 'glob' | 'list' | 'tar' | 'zip' | 'stream' | 'iterable';
  /** The path or pattern, as given; null for streams and iterables. */
  readonly location: string | null;
}

/** The items of a source, in an order that depends only on the source. */
export interface OpenedSource extends AsyncIterable<SourceItem> {
  readonly description: SourceDescription;
  /** Of Parquet files: what their indexes say, which is much faster than to read them. */
  readonly tables?: (() => Promise<TableFacts>) | undefined;
  /** Files that look like images and are not read, as far as the source was iterated. */
  readonly unread: UnreadCounts;
}

/** Kinds whose photos have columns beside them. */
const WITH_COLUMNS = new Set<SourceDescription['kind']>(['list', 'stream', 'iterable']);

/**
 * Finds out what a source is. Reads nothing of it until its items are requested.
 *
 * @param signal - Stops requests in progress.
 * @returns The items. Files, folders and archives can be iterated again, streams and iterators cannot.
 * @throws {@link TapirError} `SOURCE_INVALID` for a string that names nothing to embed; `OPTION_INVALID` for any other value
 * that is not a source. The items throw `SOURCE_INVALID` where the source is damaged, after the items before, and
 * `OPTION_INVALID` for a URL without `allowHttp`.
 */
export function openSource(
  source: EmbedSource,
  { clips, ...options }: SourcePlan = SOURCE_DEFAULTS,
  signal?: AbortSignal,
): OpenedSource {
  const images = openTars(openListed(source, options, signal), options, signal);
  const { kind } = images.description;
  if (typeof options.name === 'object' && !WITH_COLUMNS.has(kind))
    throw invalidOption(
      'name',
      `"auto", "url" or "path" for this source (${kind}): only lists, tables, streams and photos with columns have them`,
      options.name,
    );
  if (!clips) return images;
  return {
    description: images.description,
    get unread() {
      return images.unread;
    },
    [Symbol.asyncIterator]: () => clipItems(images, clips),
  };
}

/** {@link openSource} without what is in tars that a list names: an item for each of them. */
export function openListed(source: EmbedSource, options: SourceOptions, signal?: AbortSignal): OpenedSource {
  if (typeof source === 'string') return openLocation(source, options, signal);
  if (source === null || typeof source !== 'object') throw notASource(source);
  if ('paths' in source) {
    if (!isAsyncIterable(source.paths))
      throw invalidOption('source', '{ paths } with an asynchronous iterable of bytes', source.paths);
    const format = checkOneOf('format', source.format ?? 'paths', INPUT_FORMATS);
    return opened('stream', null, (unread) =>
      format === 'tar'
        ? listTarStream(source.paths, 'the stream', '', unread)
        : readItems(source.paths, format, options, signal),
    );
  }
  if (isOneImage(source) && !(Symbol.asyncIterator in source))
    throw invalidOption('source', 'an iterable: put a single image in a list', source);
  if (!(Symbol.iterator in source || Symbol.asyncIterator in source)) throw notASource(source);
  if (source instanceof Readable && !source.readableObjectMode)
    throw invalidOption('source', '{ paths: stream } if a stream of bytes lists the images', source);
  return opened('iterable', null, () => readIterable(source, options, signal));
}

/** What a string can name, for messages. */
const ACCEPTED =
  'give a folder, an image, a list (.txt, .csv, .tsv, .jsonl, .ndjson, .parquet), an archive (.tar, .tar.gz, .tgz, .zip) or a pattern (photos/*.jpg, shard-{000..009}.tar, data/*.parquet)';

function openLocation(source: string, options: SourceOptions, signal?: AbortSignal): OpenedSource {
  const stats = statOf(source);
  if (!stats && isHttpUrl(source))
    throw invalidSource(
      labelOfUrl(source),
      'it is a URL; put it in a list or in an array, with option "allowHttp"',
    );
  if (!stats && isPattern(source)) return openPattern(source, options, signal);
  if (!stats) throw invalidSource(source, `no such file or folder; ${ACCEPTED}`);
  if (stats.isDirectory()) return opened('folder', source, (unread) => listImages(source, unread));
  if (stats.isFIFO())
    return opened('stream', null, (unread) => listTarStream(createReadStream(source), source, '', unread));
  if (!stats.isFile())
    throw invalidSource(source, `it is neither a folder, a regular file nor a pipe with a tar; ${ACCEPTED}`);
  const archive = archiveKind(source);
  if (archive) return opened(archive, source, (unread) => listArchive(source, unread));
  const extension = extname(source).toLowerCase();
  if (LIST_EXTENSIONS.has(extension)) {
    const tables = extension === '.parquet' ? () => describeTables([source], options.column) : undefined;
    return opened('list', source, () => readList(source, options, signal), tables);
  }
  const kind = kindOfName(source);
  if (kind === 'image')
    return opened('list', source, () => iterate({ path: basename(source), image: source }));
  if (kind === 'unread')
    throw invalidSource(source, `files of this format are not read; ${unreadAdvice(extensionOf(source))}`);
  throw invalidSource(source, `its extension is not supported; ${ACCEPTED}`);
}

/** Returns undefined if nothing has this name. */
function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    // Errors about the path (too long, leads through a file) do not matter for a pattern.
    if (isPattern(path)) return undefined;
    throw invalidSource(path, reasonOf(error), { cause: error });
  }
}

function openPattern(source: string, options: SourceOptions, signal?: AbortSignal): OpenedSource {
  const pattern = readPattern(source);
  if (pattern.patterns.every((one) => /\.parquet$/i.test(one)))
    return opened(
      'list',
      source,
      () => listTables(pattern, options, signal),
      async () => describeTables(await pathsOf(pattern), options.column),
    );
  const kinds = new Set(pattern.patterns.map(archiveKind));
  const [kind] = kinds;
  if (kinds.size > 1)
    throw invalidSource(source, 'it matches archives of one kind and other files; give one kind');
  return kind
    ? opened(kind, source, (unread) => listShards(source, pattern, unread))
    : opened('glob', source, (unread) => listMatches(pattern, unread));
}

/** Lists the matches of a pattern. If the pattern does not end with an extension, only images. */
async function* listMatches(pattern: Pattern, unread: UnreadFiles): AsyncGenerator<SourceItem> {
  const isAny = pattern.isList || pattern.patterns.every((one) => /\.[^*?[\]()/.]+$/.test(one));
  const onRepeat = (name: string): void => {
    if (isImageName(name)) unread.addLink('symbolic');
  };
  for await (const { name, path } of findMatches(pattern, onRepeat))
    if (isAny || isImageName(name))
      yield { path: name, image: path, ...(pattern.isList ? {} : { listed: true }) };
    else if (kindOfName(name) === 'unread') unread.add(name);
}

/**
 * Lists the images of the Parquet files that a pattern matches. Those that the files hold are named `<file>/<name>`, also if there is one
 * file: the name of an image must not depend on how many files there are.
 */
async function* listTables(
  pattern: Pattern,
  options: SourceOptions,
  signal: AbortSignal | undefined,
): AsyncGenerator<SourceItem> {
  for await (const { name, path: file } of findMatches(pattern))
    for await (const item of readList(file, options, signal)) {
      const isHeld =
        typeof options.name === 'string' && (item.image instanceof Uint8Array || item.error !== undefined);
      yield isHeld && item.path !== null ? { ...item, path: `${name}/${item.path}` } : item;
    }
}

async function pathsOf(pattern: Pattern): Promise<string[]> {
  const paths: string[] = [];
  for await (const { path } of findMatches(pattern)) paths.push(path);
  return paths;
}

async function* readItems(
  bytes: AsyncIterable<Uint8Array>,
  format: Exclude<InputFormat, 'tar'>,
  options: SourceOptions,
  signal: AbortSignal | undefined,
): AsyncGenerator<SourceItem> {
  const input = await openRecords(bytes, 'the stream of images', format, options, signal);
  const columnsOf = await openCarriedTexts(input);
  let row = 0;
  for await (const { item, extra } of input.records)
    yield withColumns(item, row++, columnsOf(extra), options, input.name);
}

async function* readIterable(
  source: Iterable<unknown> | AsyncIterable<unknown>,
  options: SourceOptions,
  signal: AbortSignal | undefined,
): AsyncGenerator<SourceItem> {
  const plan = { ...options, base: '', signal };
  const isLent = !Array.isArray(source);
  let row = 0;
  for await (const given of source) {
    if (isPhotoRow(given)) yield itemOfRow(given, row, plan, isLent);
    else if (typeof options.name === 'object')
      throw invalidOption('name', '"auto", "url" or "path" for photos without columns', options.name);
    else yield itemOfImage(given, plan, 'source', isLent);
    row++;
  }
}

/** A source with the images of the tars that it names. */
function openTars(listed: OpenedSource, options: SourceOptions, signal?: AbortSignal): OpenedSource {
  const { kind, location } = listed.description;
  if (kind !== 'list' && kind !== 'iterable' && kind !== 'stream') return listed;
  const tables = listed.tables;
  return opened(kind, location, (unread) => withTars(listed, options, unread, signal), tables);
}

async function* withTars(
  items: OpenedSource,
  options: SourceOptions,
  unread: UnreadFiles,
  signal: AbortSignal | undefined,
): AsyncGenerator<SourceItem> {
  for await (const item of items)
    if (isListedTar(item)) yield* listListedTar(item, options, unread, signal);
    else yield item;
  unread.addAll(items.unread);
}

async function* iterate(item: SourceItem): AsyncGenerator<SourceItem> {
  yield item;
}

function opened(
  kind: SourceDescription['kind'],
  location: string | null,
  items: (unread: UnreadFiles) => AsyncGenerator<SourceItem>,
  tables?: OpenedSource['tables'],
): OpenedSource {
  const unread = new UnreadFiles();
  return {
    description: { kind, location },
    tables,
    get unread() {
      return unread.counts;
    },
    [Symbol.asyncIterator]() {
      unread.clear();
      return items(unread);
    },
  };
}

function isAsyncIterable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value;
}

function notASource(source: unknown): Error {
  return invalidOption('source', 'a path, a pattern, a stream of paths, or an iterable of images', source);
}
