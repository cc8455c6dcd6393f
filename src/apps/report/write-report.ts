/** A dataset → one page to look at. */
import { join, resolve } from 'node:path';
import { writeAtomically } from '../../base/atomic-file.js';
import {
  checkBoolean,
  checkInteger,
  checkSignal,
  checkText,
  invalidOption,
  withDefaults,
  type Options,
} from '../../base/checks.js';
import { packageVersion } from '../../base/package.js';
import { openDataset, type Dataset } from '../../dataset/dataset.js';
import { Internals } from '../../model/internals.js';
import { findDuplicates, type Duplicates } from '../dedupe/find-duplicates.js';
import { checkReplaceable } from '../pages/check-replaceable.js';
import { readPageFiles } from '../pages/document.js';
import { collectInputs } from './collect/collect-inputs.js';
import { collectOutput, type CollectedOutput } from './collect/collect-output.js';
import { readFacts } from './facts.js';
import { assemblePageData, describeOutput } from './page-data.js';
import type { PageOutput } from './page/data.js';
import {
  makeHeatmaps,
  readHeatmapOptions,
  type GivenReportHeatmaps,
  type Heatmaps,
  type ReportHeatmaps,
} from './heatmaps.js';
import type { Probe } from '../probe/probe.js';
import { showProbe } from './show-probe.js';
import { renderReport } from './render-report.js';
import { findImageFolder, makeThumbnails, type Thumbnails } from './thumbnails.js';
import { createBreathe } from '../pages/vectors/breathe.js';

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
  readonly heatmaps: GivenReportHeatmaps | null;
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
   * Called at the start of each step with a description of it.
   * @default undefined
   */
  readonly onPhase: ((phase: string) => void) | undefined;
}

const MAX_SAMPLE = 5000;

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
  onPhase: undefined,
};

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

/** Size limit of the file: browsers open it at once, and mail servers accept it. */
const MAX_FILE_BYTES = 20e6;

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
 * import { writeReport } from 'onnx-tapir';
 *
 * const { path, images } = await writeReport('vectors', { images: 'photos' });
 * console.log(path, images); // /home/me/vectors/report.html 1200
 * ```
 */
export async function writeReport(
  folder: string,
  given: Options<ReportOptions> = {},
): Promise<ReportSummary> {
  const options = withDefaults(REPORT_DEFAULTS, given, 'writeReport');
  const sample = checkInteger('sample', options.sample, 1, MAX_SAMPLE);
  const withUmap = checkBoolean('umap', options.umap);
  const wanted = options.heatmaps === null ? undefined : readHeatmapOptions(options.heatmaps);
  const breathe = createBreathe(checkSignal(options.signal));
  const say = options.onPhase ?? (() => undefined);
  if (typeof folder !== 'string') throw folders.refuse(folder);
  const dataset = await openDataset(checkText('folder', folder));
  const keys = chooseOutputs(dataset, options.outputs);
  const path = resolve(options.out === '' ? join(folder, 'report.html') : options.out);
  await checkReplaceable(path, 'report');
  const facts = readFacts(dataset.manifest);
  const imageFolder = await findImageFolder(options.images || undefined, facts.imageFolder);

  say('reading the metadata');
  const inputs = await collectInputs(dataset, sample, breathe);
  let heatmaps: Heatmaps | undefined;
  if (wanted && imageFolder !== undefined) {
    say(`making heat maps of ${Math.min(wanted.photos, inputs.images.length)} photos`);
    const place = { dataset, images: inputs.images, folder: imageFolder };
    heatmaps = await makeHeatmaps(place, wanted, breathe, options.signal);
  }
  const probed = options.probe
    ? await showProbe(dataset, options.probe, inputs.images, imageFolder, breathe)
    : undefined;
  const outputs: CollectedOutput[] = [];
  const pageOutputs: PageOutput[] = [];
  for (const key of keys) {
    say(`reading ${key}`);
    const output = await collectOutput(dataset, key, inputs, breathe);
    say(`comparing ${output.members.length} vectors of ${key}`);
    pageOutputs.push(await describeOutput(output, withUmap, breathe));
    // Memory holds the vectors of one output at a time.
    outputs.push({ ...output, vectors: { rows: 0, columns: 0, data: new Float32Array() } });
  }
  const duplicates: Duplicates[] = [];
  for (const key of options.duplicates === null ? [] : keys) {
    say(`comparing every pair of ${key}`);
    duplicates.push(
      await findDuplicates(dataset, { key, cosine: options.duplicates!, signal: options.signal }),
    );
  }
  const files = await readPageFiles('report');
  const render = ({ pictures }: Pick<Thumbnails, 'pictures'>, notes: readonly string[]): Buffer => {
    const data = assemblePageData(inputs.images, pictures, pageOutputs, probed?.labels);
    return Buffer.from(
      renderReport({
        facts,
        inputs,
        outputs,
        data,
        heatmaps,
        probe: probed?.part,
        duplicates,
        notes,
        version: packageVersion(),
        files,
      }),
    );
  };
  const noPictures = inputs.images.map(() => null);
  const room = MAX_FILE_BYTES - render({ pictures: noPictures }, []).length;
  say(`making ${inputs.images.length} pictures`);
  const thumbnails = await makeThumbnails(inputs.images, imageFolder, room, breathe);
  const notes = [
    ...notesOf(thumbnails, imageFolder),
    ...heatmapNotes(wanted, heatmaps),
    ...(probed?.notes ?? []),
  ];
  const bytes = render(thumbnails, notes);
  await writeAtomically(path, bytes);
  const pictures = thumbnails.pictures.filter((picture) => picture !== null).length;
  const counts = { images: inputs.images.length, pictures, heatmaps: heatmaps?.pairs.length ?? 0 };
  return { path, bytes: bytes.length, ...counts, duplicates, notes };
}

const folders = new Internals<never, never>('folder', 'the path of a dataset');

function chooseOutputs({ manifest }: Dataset, wanted: readonly string[]): readonly string[] {
  const keys = Object.keys(manifest.features);
  if (!Array.isArray(wanted)) throw invalidOption('outputs', 'a list of keys', wanted);
  const unknown = wanted.find((key) => !keys.includes(key));
  if (unknown !== undefined) {
    const known = keys.map((key) => JSON.stringify(key)).join(', ');
    throw invalidOption('output', `an output of the dataset (${known || 'it has none'})`, unknown);
  }
  return wanted.length === 0 ? keys : keys.filter((key) => wanted.includes(key));
}

function notesOf({ unreadable, leftOut }: Thumbnails, imageFolder: string | undefined): string[] {
  if (imageFolder === undefined)
    return ['There are no pictures, because the folder of the images is not here. Name it with --images.'];
  return [
    ...(unreadable > 0 ? [`${unreadable} images could not be read again and have no picture.`] : []),
    ...(leftOut > 0 ? [`${leftOut} images have no picture, to keep this file below 20 MB.`] : []),
  ];
}

function heatmapNotes(wanted: ReportHeatmaps | undefined, heatmaps: Heatmaps | undefined): string[] {
  if (!wanted) return [];
  if (!heatmaps) return ['There are no heat maps, for the same reason.'];
  const { unreadable } = heatmaps;
  return unreadable === 0 ? [] : [`${unreadable} of the photos for heat maps could not be read again.`];
}
