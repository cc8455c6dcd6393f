/** How to read a source. */
import type { ClipPlan } from '../../images/transform/clip-options.js';
import { invalidOption, isPlainObject, isText } from '../../../base/checks.js';
import { checkHeaders, type RequestHeaders } from '../../../base/http/request-headers.js';
import {
  boolean,
  checkedBy,
  defaultsOf,
  integer,
  optional,
  text,
  type Fields,
} from '../../../base/options.js';
import type { UrlName } from '../../../base/url-names.js';

/** How a source of images is read. */
export interface SourceOptions {
  /**
   * Column (CSV, TSV, Parquet) or field (JSON lines) of a list that holds the path or URL.
   * @default 'path'
   */
  readonly column: string;
  /**
   * Whether entries of a plain list or a stream of paths end with a NUL character, as `find -print0` writes them, and not with
   * the line.
   * @default false
   */
  readonly nulSeparated: boolean;
  /**
   * Whether to fetch the http(s) URLs of a list. Without it, the first URL ends the run.
   * @default false
   */
  readonly allowHttp: boolean;
  /**
   * Time limit of a request, an integer from 1 to 3 600 000 milliseconds.
   * @default 30000
   */
  readonly httpTimeoutMs: number;
  /**
   * Size limit of a fetched image, an integer from 1 to 1 GiB in bytes.
   * @default 67108864
   */
  readonly httpMaxBytes: number;
  /**
   * Headers of each request for a URL, such as `{ authorization: 'Bearer …' }`: each URL's own server gets them, and no other one that it redirects to.
   * They are stored nowhere.
   * @default undefined
   */
  readonly headers: RequestHeaders | undefined;
  /**
   * The names of photos. `'auto'` is a path as it is listed, or a URL without what only fetches it: user, password, and the credentials of
   * its query (`X-Amz-*`, `sig`, `token`, …). So a list that is signed again names the same photos. `'url'`: also with parameters that are
   * secrets by their name only, where they number photos. `'path'`: the path of a URL alone. `{ column }`: what a column (field) of a list,
   * a table, a stream of records or a photo with columns says; a row where it is empty is named as by `'auto'`. A dataset keeps to one of them.
   * @default 'auto'
   */
  readonly name: PhotoName;
}

/** How photos are named: see {@link SourceOptions}. */
export type PhotoName = UrlName | { readonly column: string };

const COLUMN = 'column:';

function checkName(option: string, value: unknown): PhotoName {
  if (value === 'auto' || value === 'url' || value === 'path') return value;
  if (isPlainObject(value) && isText(value['column']) && Object.keys(value).length === 1)
    return Object.freeze({ column: value['column'] });
  throw invalidOption(option, '"auto", "url", "path" or { column }', value);
}

/** How a source is read, and what its images are. */
export interface SourcePlan extends SourceOptions {
  /** How its images make clips; undefined for single images. */
  readonly clips?: ClipPlan | undefined;
}

export const SOURCE_FIELDS: Fields<SourceOptions> = {
  column: text('path', 'column or field of a list that holds the path'),
  nulSeparated: boolean(false, 'paths of a plain list end with NUL: find -print0'),
  allowHttp: boolean(false, 'fetch entries of a list that are URLs'),
  httpTimeoutMs: integer(1, 3_600_000, 30_000),
  httpMaxBytes: integer(1, 1024 ** 3, 64 * 1024 ** 2),
  headers: optional(checkHeaders),
  name: checkedBy(
    checkName,
    'auto',
    'names of photos: auto (a URL without its credentials), url, path, or column:NAME of the list',
    (text) => (text.startsWith(COLUMN) ? { column: text.slice(COLUMN.length) } : text),
  ),
};

export const SOURCE_DEFAULTS: SourceOptions = defaultsOf(SOURCE_FIELDS);

/** For photos that a call names. The URLs of a list may come from anywhere: those of a call are its author's. */
export const FETCHED: SourceOptions & { readonly base: '' } = {
  ...SOURCE_DEFAULTS,
  allowHttp: true,
  base: '',
};
