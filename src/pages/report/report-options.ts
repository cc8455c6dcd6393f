/** What a report shows, and where it goes. */
import type { Options } from '../../base/checks.js';
import type { Progress } from '../../base/progress.js';
import type { Probe } from '../../features/probe/probe.js';
import type { ReportHeatmaps } from './sections/heatmaps.js';

/** Options of {@link writeReport}. */
export interface ReportOptions {
  /**
   * HTML file to write; empty for `report.html` in the dataset. It may replace an older report, but no other file.
   * @default ''
   */
  readonly out: string;
  /**
   * Keys of the outputs to show; empty for all of them.
   * @default []
   */
  readonly outputs: readonly string[];
  /**
   * Folder of the images, for their pictures; empty for the folder that the manifest records.
   * @default ''
   */
  readonly images: string;
  /**
   * Maximum number of images on the map, an integer from 1 to 5000. Larger datasets are sampled at random with a fixed seed.
   * @default 5000
   */
  readonly sample: number;
  /**
   * Whether to make a map by UMAP besides the one by PCA.
   * @default true
   */
  readonly umap: boolean;
  /**
   * Shows heat maps of some photos, which needs the model that made the dataset; see {@link ReportHeatmaps}. Null for no heat maps.
   * @default null
   */
  readonly heatmaps: (Options<ReportHeatmaps> & Pick<ReportHeatmaps, 'model'>) | null;
  /**
   * Also compares every pair of the whole dataset, as {@link findDuplicates} does, with this cosine as the threshold. Time grows with the
   * square of the rows: three minutes for 100,000 rows of 768 numbers on two cores. Null for the near-duplicates on the map only.
   * @default null
   */
  readonly duplicates: number | null;
  /**
   * Shows a probe of the dataset: its confusions, its suspected labels, and the map coloured by label. Null for none.
   * @default null
   */
  readonly probe: Probe | null;
  /**
   * Stops the work when it fires; the call rejects with its reason, and writes nothing.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Called as each step begins, with its description as `what`.
   * @default undefined
   */
  readonly onProgress: ((progress: Progress) => void) | undefined;
}

export const MAX_SAMPLE = 5000;

export const REPORT_DEFAULTS: ReportOptions = {
  out: '',
  outputs: [],
  images: '',
  sample: MAX_SAMPLE,
  umap: true,
  heatmaps: null,
  duplicates: null,
  probe: null,
  signal: undefined,
  onProgress: undefined,
};
