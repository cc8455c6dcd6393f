/** A dataset → all that its page shows. */
import { countSteps } from '../../base/progress.js';
import { checkText, invalidOption } from '../../base/checks.js';
import { packageVersion } from '../../base/package.js';
import { noteAssumed } from '../../datasets/embed/recorded-model.js';
import { openDataset, type Dataset } from '../../datasets/files/dataset.js';
import { findDuplicates, type Duplicates } from '../../features/dedupe/find-duplicates.js';
import { readPageFiles } from '../../html/document.js';
import { createBreathe, type Breathe } from '../../tensor/vectors/breathe.js';
import { collectInputs, type Inputs, type SampledImage } from './collect/collect-inputs.js';
import { collectOutput, type CollectedOutput } from './collect/collect-output.js';
import { readFacts } from './sections/facts.js';
import { makeHeatmaps, readHeatmapOptions, type Heatmaps, type ReportHeatmaps } from './sections/heatmaps.js';
import { assemblePageData, describeOutput } from './page-data.js';
import type { PageOutput, PageServer } from './page/data.js';
import type { ReportOptions } from './report-options.js';
import { renderReport } from './render-report.js';
import { findImageFolder, makeThumbnails, type Thumbnails } from './sections/thumbnails.js';
import { NO_LABEL, readLabels } from '../../features/probe/rows/labels.js';
import type { Probe } from '../../features/probe/probe.js';
import type { ProbePart } from './sections/probe-section.js';

/** Size limit of the page: browsers open it at once, and mail servers accept it. */
const MAX_PAGE_BYTES = 20e6;

/** A report that is ready to be written or served. */
export interface MadeReport {
  readonly dataset: Dataset;
  /** Folder of the images; undefined if it is not here. */
  readonly imageFolder: string | undefined;
  /** Number of images on the map, of those with a picture, and of photos with a heat map. */
  readonly counts: { readonly images: number; readonly pictures: number; readonly heatmaps: number };
  readonly duplicates: readonly Duplicates[];
  /** What the page does not show, and why. */
  readonly notes: readonly string[];
  /** Writes the page as text; for a page that is served, with what it needs for its questions. */
  readonly render: (server?: PageServer) => string;
}

/**
 * Reads a dataset and computes its report.
 *
 * @throws {@link TapirError} as {@link writeReport} does, except for what it writes.
 */
export async function makeReport(folder: string, options: Omit<ReportOptions, 'out'>): Promise<MadeReport> {
  const { sample, umap, signal, duplicates: cosine } = options;
  const wanted = options.heatmaps && readHeatmapOptions(options.heatmaps);
  const breathe = createBreathe(signal);
  const say = countSteps(options.onProgress);
  const dataset = await openDataset(checkText('folder', folder));
  const keys = chooseOutputs(dataset, options.outputs);
  const facts = readFacts(dataset.manifest);
  const imageFolder = await findImageFolder(options.images, facts.imageFolder);

  say('reading the metadata');
  const inputs = await collectInputs(dataset, sample, breathe);
  let heatmaps: Heatmaps | undefined;
  if (wanted && imageFolder !== undefined) {
    say(`making heat maps of ${Math.min(wanted.photos, inputs.images.length)} photos`);
    const place = { dataset, images: inputs.images, folder: imageFolder };
    heatmaps = await makeHeatmaps(place, wanted, breathe, signal);
  }
  const probed = options.probe
    ? await showProbe(dataset, options.probe, inputs.images, imageFolder, breathe)
    : undefined;
  const { outputs, pageOutputs } = await describeOutputs(dataset, keys, inputs, umap, breathe, say);
  const duplicates: Duplicates[] = [];
  for (const key of cosine === undefined ? [] : keys) {
    say(`comparing every pair of ${key}`);
    duplicates.push(await findDuplicates(dataset, { key, cosine, signal }));
  }
  const files = await readPageFiles('report');
  const render = (
    { pictures }: Pick<Thumbnails, 'pictures'>,
    notes: readonly string[],
    server: PageServer | null,
  ): string =>
    renderReport({
      facts,
      inputs,
      outputs,
      data: assemblePageData(inputs.images, pictures, pageOutputs, probed?.labels, server),
      heatmaps,
      probe: probed?.part,
      duplicates,
      notes,
      version: packageVersion(),
      files,
    });
  const noPictures = inputs.images.map(() => null);
  const room = MAX_PAGE_BYTES - Buffer.byteLength(render({ pictures: noPictures }, [], null));
  say(`making ${inputs.images.length} pictures`);
  const thumbnails = await makeThumbnails(inputs.images, imageFolder, room, breathe);
  const notes = [
    ...noteAssumed(dataset),
    ...notesOf(thumbnails, imageFolder),
    ...heatmapNotes(wanted, heatmaps),
    ...(probed?.notes ?? []),
  ];
  const pictures = thumbnails.pictures.filter((picture) => picture !== null).length;
  return {
    dataset,
    imageFolder,
    counts: { images: inputs.images.length, pictures, heatmaps: heatmaps?.pairs.length ?? 0 },
    duplicates,
    notes,
    render: (server) => render(thumbnails, notes, server ?? null),
  };
}

/** Computes what the page shows of each output. Memory holds the vectors of one output at a time. */
async function describeOutputs(
  dataset: Dataset,
  keys: readonly string[],
  inputs: Inputs,
  withUmap: boolean,
  breathe: Breathe,
  say: (phase: string) => void,
): Promise<{ readonly outputs: readonly CollectedOutput[]; readonly pageOutputs: readonly PageOutput[] }> {
  const outputs: CollectedOutput[] = [];
  const pageOutputs: PageOutput[] = [];
  for (const key of keys) {
    say(`reading ${key}`);
    const output = await collectOutput(dataset, key, inputs, breathe);
    say(`comparing ${output.members.length} vectors of ${key}`);
    pageOutputs.push(await describeOutput(output, withUmap, breathe));
    outputs.push({ ...output, vectors: { rows: 0, columns: 0, data: new Float32Array() } });
  }
  return { outputs, pageOutputs };
}

function chooseOutputs({ manifest }: Dataset, wanted: readonly string[]): readonly string[] {
  const keys = Object.keys(manifest.features);
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

/** Suspects with a picture. */
const MOST_SUSPECTS = 60;
/** Size limit of their pictures. */
const PICTURE_BYTES = 1e6;
const UNLABELLED = '(no label)';

/** A probe as the page needs it. */
interface ShownProbe {
  readonly part: ProbePart;
  /** The labels of the sampled images; undefined if the probe does not say where they come from. */
  readonly labels: readonly string[] | undefined;
  readonly notes: readonly string[];
}

/**
 * Reads the labels of the images again, and makes the pictures of suspected ones.
 *
 * @param folder - Folder of the images; undefined for no pictures.
 */
async function showProbe(
  dataset: Dataset,
  probe: Probe,
  images: readonly SampledImage[],
  folder: string | undefined,
  breathe: Breathe,
): Promise<ShownProbe> {
  const suspects = (probe.results?.suspects ?? []).slice(0, MOST_SUSPECTS);
  const listed = suspects.map(({ path, row }) => ({ path, row, width: null, height: null }));
  const { pictures } = await makeThumbnails(listed, folder, PICTURE_BYTES, breathe);
  const part = {
    probe,
    suspects: suspects.map((suspect, i) => ({ suspect, picture: pictures[i] ?? null })),
  };
  if (probe.labels === null) {
    const note = 'The map is coloured by folder: the labels of the probe were given as a Map.';
    return { part, labels: undefined, notes: [note] };
  }
  const { classes, ofRow } = await readLabels(dataset, probe.labels);
  const labels = images.map(({ row }) => {
    const label = ofRow[row] ?? NO_LABEL;
    return label === NO_LABEL ? UNLABELLED : classes[label]!;
  });
  return { part, labels, notes: [] };
}
