/** What a report shows, and where it goes. */
import {
  boolean,
  callback,
  integer,
  optional,
  positive,
  signal,
  texts,
  unchecked,
  type Fields,
} from '../../../base/options.js';
import { checkText, type Options } from '../../../base/checks.js';
import type { Progress } from '../../../base/progress.js';
import { checkProbe, type Probe } from '../../features/probe/probe.js';
import type { ReportHeatmaps } from './sections/heatmaps.js';

/** Options of {@link writeReport}. */
export interface ReportOptions {
  /**
   * HTML file to write. It may replace an older report, but no other file.
   * @default undefined, which is `report.html` in the dataset
   */
  readonly out: string | undefined;
  /**
   * Keys of the outputs to show; empty for all of them.
   * @default []
   */
  readonly outputs: readonly string[];
  /**
   * Folder of the images, for their pictures.
   * @default undefined, which is the folder that the manifest records
   */
  readonly images: string | undefined;
  /**
   * Maximum number of images on the map, an integer from 1 to 200000. Larger datasets are sampled at random with a fixed seed. Up to
   * 3000 images are compared with each other; the others take their places from those.
   * @default 200000
   */
  readonly sample: number;
  /**
   * Further columns to colour the map by, in the forms in which {@link trainProbe} takes its labels. They are `by-last-folder`,
   * `column:NAME` of the metadata, and a `.csv`, `.tsv` or `.parquet` file with the columns `path` and `label`.
   * @default []
   */
  readonly colourBy: readonly string[];
  /**
   * Whether to make a map by UMAP besides the one by PCA.
   * @default true
   */
  readonly umap: boolean;
  /**
   * Shows heat maps of some photos, which needs the model that made the dataset; see {@link ReportHeatmaps}.
   * @default undefined
   */
  readonly heatmaps: (Options<ReportHeatmaps> & Pick<ReportHeatmaps, 'model'>) | undefined;
  /**
   * Also compares every pair of the whole dataset, as {@link findDuplicates} does, with this cosine as the threshold. Time grows with the
   * square of the rows: three minutes for 100,000 rows of 768 numbers on two cores.
   * @default undefined, which shows the near-duplicates on the map only
   */
  readonly duplicates: number | undefined;
  /**
   * Shows a probe of the dataset: its confusions, its suspected labels, and the map coloured by label.
   * @default undefined
   */
  readonly probe: Probe | undefined;
  /**
   * Stops the work when it fires; the call rejects with its reason, and writes nothing.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Called as each step begins, with its description as `what`, and within long steps with how much is done.
   * @default undefined
   */
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

const DUPLICATES = 'also compare every pair of the whole dataset, as tapir dedupe does, such as 0.97';

export const REPORT_FIELDS: Fields<ReportOptions> = {
  out: optional(checkText, 'HTML file to write (default: report.html in the dataset)'),
  outputs: texts([], 'show this output only; repeatable (default: all)'),
  images: optional(checkText, 'folder of the images (default: the folder that was embedded)'),
  sample: integer(1, 200_000, 200_000, 'maximum number of images on the map'),
  colourBy: texts(
    [],
    'also colour the map by this: by-last-folder, column:NAME, or a table of path and label; repeatable',
  ),
  umap: boolean(true, 'also make the map by UMAP; false: only by PCA, which is faster'),
  // Checked with its own fields.
  heatmaps: unchecked<ReportOptions['heatmaps']>(undefined),
  duplicates: optional(positive(0.97, DUPLICATES, 1)),
  probe: optional((_option, value) => checkProbe(value)),
  signal,
  onProgress: callback(),
};
