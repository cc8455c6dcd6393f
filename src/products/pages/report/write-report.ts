/** A dataset → one page to look at. */
import { join, resolve } from 'node:path';
import { Internals } from '../../../run/model/open/internals.js';
import { checkText, type Options } from '../../../base/checks.js';
import { readOptions } from '../../../base/options.js';
import { writeAtomically } from '../../../base/atomic-file.js';
import type { Duplicates } from '../../features/dedupe/find-duplicates.js';
import { checkReplaceable } from '../../../base/html/check-replaceable.js';
import { makeReport } from './make-report.js';
import { REPORT_FIELDS, type ReportOptions } from './report-options.js';

/** What {@link writeReport} has written. */
export interface ReportSummary {
  /** The file, as an absolute path. */
  readonly path: string;
  readonly bytes: number;
  /** Number of images on the map. */
  readonly images: number;
  /** Number of those that have a picture. */
  readonly pictures: number;
  /** Number of photos with a heat map. */
  readonly heatmaps: number;
  /** The near-duplicates of the whole dataset by output; empty without the option `duplicates`. */
  readonly duplicates: readonly Duplicates[];
  /** What the page does not show, and why. */
  readonly notes: readonly string[];
}

/**
 * Writes a page about a dataset: a map of its vectors, near-duplicates, statistics and failures, in one HTML file that loads
 * nothing from elsewhere.
 *
 * @remarks The same dataset with the same images gives the same bytes. Each output is read once; apart from 8 bytes per row, memory
 * does not grow with the dataset. The file has at most 20 MB: pictures that would exceed it are left out.
 *
 * @param folder - A dataset that {@link embedFolder} or `tapir embed` has written.
 * @param given - See {@link ReportOptions}.
 * @returns The path, the size, and what the page does not show.
 * @throws {@link TapirError} `OPTION_INVALID`; `DATASET_INVALID`; `SOURCE_INVALID` if `images` is not a folder; `OUTPUT_EXISTS` if
 * the file exists and is not a report; `OUTPUT_UNWRITABLE`. With heat maps, also `CHECKSUM_MISMATCH` for another model than the
 * dataset's, and those of {@link createAttribution}.
 *
 * @example
 * ```ts
 * import { writeReport } from 'onnx-tapir/pages';
 *
 * const { path, images } = await writeReport('vectors', { images: 'photos' });
 * console.log(path, images); // /home/me/vectors/report.html 1200
 * ```
 */
export async function writeReport(
  folder: string,
  given: Options<ReportOptions> = {},
): Promise<ReportSummary> {
  const { out, ...contents } = readOptions(REPORT_FIELDS, given, 'writeReport');
  if (typeof folder !== 'string') throw folders.refuse(folder);
  const path = resolve(out ?? join(checkText('folder', folder), 'report.html'));
  await checkReplaceable(path, 'report');
  const { counts, duplicates, notes, render } = await makeReport(folder, contents);
  const bytes = await render();
  await writeAtomically(path, bytes);
  return { path, bytes: bytes.length, ...counts, duplicates, notes };
}

const folders = new Internals<never, never>('folder', 'the path of a dataset');
