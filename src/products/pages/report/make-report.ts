/** A dataset → all that its page shows. */
import { basename, resolve } from 'node:path';
import { noteAssumed } from '../../../datasets/embed/recorded-model.js';
import { readLabels } from '../../../datasets/labels/labels.js';
import { removeColumn } from '../../../datasets/files/saved-columns.js';
import { checkText, invalidOption } from '../../../base/checks.js';
import { countSteps } from '../../../base/progress.js';
import { readOptions } from '../../../base/options.js';
import { createBreathe } from '../../../onnx/tensor/vectors/breathe.js';
import { openDataset, type Dataset } from '../../../datasets/files/dataset.js';
import { findDuplicates, type Duplicates } from '../../features/dedupe/find-duplicates.js';
import { collectInputs, type SampledImage } from './collect/collect-inputs.js';
import { collectOutput, takePlaces, type CollectedOutput } from './collect/collect-output.js';
import { readFacts } from './sections/facts.js';
import { makeFeaturePictures, type FeaturePictures } from './sections/feature-pictures.js';
import { HEATMAP_FIELDS, makeHeatmaps, type Heatmaps, type ReportHeatmaps } from './sections/heatmaps.js';
import { assemblePageData, describeOutput, type Describing, type NamedLabels } from './page-data.js';
import type { PageColumn, PageImages, PageOutput, PageServer } from './page/data.js';
import type { ReportOptions } from './report-options.js';
import { renderReport } from './render-report.js';
import {
  findImageFolder,
  makePicture,
  makeThumbnails,
  type Pictured,
  type Thumbnails,
} from './sections/thumbnails.js';
import { namedLabels, showProbe } from './show-probe.js';
import { readOwnColumns, saveSelection, type SelectionToSave } from './own-columns.js';

/** Size limit of the page: browsers open it at once, and mail servers accept it. */
const MAX_PAGE_BYTES = 20e6;
/** Longer side in pixels of pictures that a served page asks for. */
export const SHOWN_SIDE = 160;

/** A report that is ready to be written or served. */
export interface MadeReport {
  readonly dataset: Dataset;
  /** Number of images on the map, of those with a picture, and of photos with a heat map. */
  readonly counts: { readonly images: number; readonly pictures: number; readonly heatmaps: number };
  readonly duplicates: readonly Duplicates[];
  /** What the page does not show, and why. */
  readonly notes: readonly string[];
  /** Makes the picture of an image by its path, WebP in base64; null if its file cannot be read. */
  readonly makePictureOf: (image: Pictured) => Promise<string | null>;
  /** The same by its place on the map. */
  readonly makePictureAt: (place: number) => Promise<string | null>;
  /** Saves images, by their places on the map, as a column of the dataset. The page has it from then on. */
  readonly saveSelection: (places: unknown, selection: SelectionToSave) => Promise<PageColumn>;
  /** Removes a column that was saved. Throws `OPTION_INVALID`, as {@link removeColumn} does. */
  readonly removeColumn: (name: string) => Promise<void>;
  /** Writes the page; for a page that is served, with what it needs for its questions. */
  readonly render: (server?: PageServer) => Promise<Uint8Array>;
}

/** Reads a dataset and computes its report. Throws as {@link writeReport} does, except for what that writes. */
export async function makeReport(folder: string, options: Omit<ReportOptions, 'out'>): Promise<MadeReport> {
  const { sample, umap, signal, duplicates: cosine } = options;
  const wanted = options.heatmaps && readOptions(HEATMAP_FIELDS, options.heatmaps, 'heatmaps', 'heatmaps.');
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
  const describing = { dataset, inputs, withUmap: umap, breathe, signal, begin: say };
  const { outputs, pageOutputs, seen } = await describeOutputs(keys, describing, imageFolder);
  let columns = [
    ...(probed?.columns ?? []),
    ...(await readColumns(dataset, inputs.images, options.colourBy)),
  ];
  const own = readOwnColumns(inputs.images, new Set(columns.map(({ name }) => name)));
  const ownColumns = new Map(own.columns);
  const duplicates: Duplicates[] = [];
  for (const key of cosine === undefined ? [] : keys) {
    say(`comparing every pair of ${key}`);
    const onProgress = options.onProgress;
    duplicates.push(await findDuplicates(dataset, { key, cosine, signal, onProgress }));
  }
  const render = (
    pictures: PageImages['thumbnails'],
    notes: readonly string[],
    server: PageServer | null,
  ): Promise<Uint8Array> =>
    renderReport({
      title: basename(resolve(folder)),
      facts,
      inputs,
      outputs,
      data: assemblePageData(inputs.images, pictures, pageOutputs, columns, [...ownColumns.values()], server),
      heatmaps,
      seen,
      probe: probed?.part,
      duplicates,
      notes,
    });
  const room = MAX_PAGE_BYTES - (await render({}, [], null)).length;
  // Of the images that are compared with each other, which fit the page.
  const places = takePlaces(inputs.images.length, 1);
  const tell = say('making pictures', 'images', places.length);
  const pictured = places.map((place) => inputs.images[place]!);
  const thumbnails = await makeThumbnails(pictured, imageFolder, room, async (done) => {
    tell(done);
    await breathe();
  });
  const notes = [
    ...noteAssumed(dataset),
    ...notesOf(thumbnails, imageFolder),
    ...heatmapNotes(wanted, heatmaps),
    ...(probed?.notes ?? []),
    ...own.notes,
  ];
  const pictures = Object.fromEntries(
    thumbnails.pictures.flatMap((picture, i) => (picture === null ? [] : [[places[i]!, picture]])),
  );
  const makePictureOf = async (image: Pictured): Promise<string | null> =>
    imageFolder === undefined ? null : makePicture(imageFolder, image, SHOWN_SIDE);
  /** Drops what was read of a saved column before. */
  const forget = (saved: string): void => {
    if (options.colourBy.includes(`column:${saved}`)) columns = columns.filter(({ name }) => name !== saved);
  };
  return {
    dataset,
    counts: {
      images: inputs.images.length,
      pictures: Object.keys(pictures).length,
      heatmaps: heatmaps?.pairs.length ?? 0,
    },
    duplicates,
    notes,
    makePictureOf,
    makePictureAt: (place) => makePictureOf(inputs.images[place] ?? { path: null }),
    saveSelection: async (places, selection) => {
      const column = await saveSelection(dataset, inputs.images, places, selection);
      forget(selection.name);
      ownColumns.set(selection.name, column);
      return column;
    },
    removeColumn: async (name) => {
      await removeColumn(dataset, name);
      ownColumns.delete(name);
      forget(name);
    },
    render: (server) => render(pictures, notes, server ?? null),
  };
}

/** What the page shows of the outputs. */
interface DescribedOutputs {
  readonly outputs: readonly CollectedOutput[];
  readonly pageOutputs: readonly PageOutput[];
  readonly seen: readonly FeaturePictures[];
}

/** Computes what the page shows of each output. Memory holds the vectors and the drawn rows of one output at a time. */
async function describeOutputs(
  keys: readonly string[],
  describing: Describing,
  imageFolder: string | undefined,
): Promise<DescribedOutputs> {
  const { dataset, inputs, breathe, begin } = describing;
  const outputs: CollectedOutput[] = [];
  const pageOutputs: PageOutput[] = [];
  const seen: FeaturePictures[] = [];
  for (const key of keys) {
    const tell = begin(`reading ${key}`, 'rows', inputs.ok);
    const output = await collectOutput(dataset, key, inputs, breathe, tell);
    pageOutputs.push(await describeOutput(output, describing));
    const pictures = await makeFeaturePictures(output, inputs.images, imageFolder);
    if (pictures) seen.push(pictures);
    outputs.push({ ...output, vectors: { rows: 0, columns: 0, data: new Float32Array() }, drawn: [] });
  }
  return { outputs, pageOutputs, seen };
}

/** The columns that the map is also coloured by. */
async function readColumns(
  dataset: Dataset,
  images: readonly SampledImage[],
  sources: readonly string[],
): Promise<NamedLabels[]> {
  const columns: NamedLabels[] = [];
  for (const source of sources)
    columns.push(
      namedLabels(
        basename(source.replace(/^column:/, '')),
        images,
        await readLabels(dataset, source, 'colourBy'),
      ),
    );
  return columns;
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
