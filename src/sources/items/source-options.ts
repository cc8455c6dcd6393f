/** What reading a source takes besides the source itself. */
import { checkBoolean, checkInteger, checkText } from '../../base/checks.js';

/** How a source of images is read. */
export interface SourceOptions {
  /**
   * Column (CSV, TSV, Parquet) or field (JSON lines) of a list that holds the path or URL.
   * @default 'path'
   */
  readonly column: string;
  /**
   * Entries of a plain list or a stream of paths end with a NUL character, as `find -print0` writes them, not with the line.
   * @default false
   */
  readonly nulSeparated: boolean;
  /**
   * Fetch entries of a list that are http(s) URLs; without it the first one ends the run.
   * @default false
   */
  readonly allowHttp: boolean;
  /**
   * Longest time for one request, an integer from 1 to 3 600 000 milliseconds.
   * @default 30000
   */
  readonly httpTimeoutMs: number;
  /**
   * Longest image that is fetched, an integer from 1 to 1 GiB in bytes.
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

/** The checked options of a source. Throws `OPTION_INVALID`. */
export function checkSourceOptions(options: SourceOptions): SourceOptions {
  return {
    column: checkText('column', options.column),
    nulSeparated: checkBoolean('nulSeparated', options.nulSeparated),
    allowHttp: checkBoolean('allowHttp', options.allowHttp),
    httpTimeoutMs: checkInteger('httpTimeoutMs', options.httpTimeoutMs, 1, 3_600_000),
    httpMaxBytes: checkInteger('httpMaxBytes', options.httpMaxBytes, 1, 1024 ** 3),
  };
}
