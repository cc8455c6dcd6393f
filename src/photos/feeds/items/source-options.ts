/** How to read a source. */
import type { ClipPlan } from '../../images/transform/clip-options.js';
import { boolean, defaultsOf, integer, text, type Fields } from '../../../base/options.js';

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
};

export const SOURCE_DEFAULTS: SourceOptions = defaultsOf(SOURCE_FIELDS);
