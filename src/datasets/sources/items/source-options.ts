/** How to read a source. */
import { checkBoolean, checkInteger, checkText } from '../../../base/checks.js';

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

export const SOURCE_DEFAULTS: SourceOptions = {
  column: 'path',
  nulSeparated: false,
  allowHttp: false,
  httpTimeoutMs: 30_000,
  httpMaxBytes: 64 * 1024 ** 2,
};

/** Checks the options of a source. Throws `OPTION_INVALID`. */
export function checkSourceOptions(options: SourceOptions): SourceOptions {
  return {
    column: checkText('column', options.column),
    nulSeparated: checkBoolean('nulSeparated', options.nulSeparated),
    allowHttp: checkBoolean('allowHttp', options.allowHttp),
    httpTimeoutMs: checkInteger('httpTimeoutMs', options.httpTimeoutMs, 1, 3_600_000),
    httpMaxBytes: checkInteger('httpMaxBytes', options.httpMaxBytes, 1, 1024 ** 3),
  };
}
