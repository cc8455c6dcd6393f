/** A dataset → one page to look at. */
import { open, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import {
  checkBoolean,
  checkInteger,
  checkSignal,
  checkText,
  invalidOption,
  withDefaults,
  type Options,
} from '../../base/checks.js';
import { openDataset, type Dataset } from '../../dataset/dataset.js';
import { packageVersion } from '../../base/package.js';
import { unwritable, writeAtomically } from '../../base/atomic-file.js';
import { TapirError } from '../../base/errors.js';
import { createBreathe } from './breathe.js';
import { collectInputs } from './collect-inputs.js';
import { collectOutput, type CollectedOutput } from './collect-output.js';
import { renderDocument, REPORT_MARK } from './document.js';
import { readFacts } from './facts.js';
import { assemblePageData, describeOutput } from './page-data.js';
import { readPageFiles } from './page-files.js';
import type { PageOutput } from './page/data.js';
import { findImageFolder, makeThumbnails, type Thumbnails } from './thumbnails.js';

/** Options of {@link writeReport}. */
export interface ReportOptions {
  /**
   * File to write; a report that is already there is replaced, another file is not. Empty for `report.html` in the dataset.
   * @default ''
   */
  readonly out: string;
  /**
   * Keys of the outputs to show; empty for all.
   * @default []
   */
  readonly outputs: readonly string[];
  /**
   * Folder of the images, for pictures; empty for the one that the manifest records.
   * @default ''
   */
  readonly images: string;
  /**
   * Most images on the map, an integer from 1 to 5000, drawn at random with a fixed seed.
   * @default 5000
   */
  readonly sample: number;
  /**
   * Make a map by UMAP too.
   * @default true
   */
  readonly umap: boolean;
  /**
   * Stops the work; what is written then is nothing.
   * @default undefined
   */
  readonly signal: AbortSignal | undefined;
  /**
   * Called when a step begins, with words for it.
   * @default undefined
   */
  readonly onPhase: ((phase: string) => void) | undefined;
}

export const MAX_SAMPLE = 5000;

export const REPORT_DEFAULTS: ReportOptions = {
  out: '',
  outputs: [],
  images: '',
  sample: MAX_SAMPLE,
  umap: true,
  signal: undefined,
  onPhase: undefined,
};

/** What was written. */
export interface ReportSummary {
  readonly path: string;
  readonly bytes: number;
  /** Images on the map. */
  readonly images: number;
  readonly pictures: number;
  /** What is not shown, and why. */
  readonly notes: readonly string[];
}

/** Largest file: browsers open it at once, and mail takes it. */
const MAX_FILE_BYTES = 20e6;

/**
 * Writes a page about a dataset: a map of its vectors, near-duplicates, statistics and failures, in one HTML file that loads
 * nothing from elsewhere.
 *
 * @remarks The same dataset with the same images gives the same bytes. All rows are read once per output; memory does not grow
 * with them, but for 8 bytes a row.
 * @param folder - Dataset that `embedFolder` has written.
 * @param given - See {@link ReportOptions}.
 * @throws {@link TapirError} `OPTION_INVALID`; `DATASET_INVALID`; `SOURCE_INVALID` for an image folder that is none;
 * `OUTPUT_EXISTS` if the file is there and no report; `OUTPUT_UNWRITABLE`.
 */
export async function writeReport(
  folder: string,
  given: Options<ReportOptions> = {},
): Promise<ReportSummary> {
  const options = withDefaults(REPORT_DEFAULTS, given, 'writeReport');
  const sample = checkInteger('sample', options.sample, 1, MAX_SAMPLE);
  const withUmap = checkBoolean('umap', options.umap);
  const breathe = createBreathe(checkSignal(options.signal));
  const say = options.onPhase ?? (() => undefined);
  const dataset = await openDataset(checkText('folder', folder));
  const keys = chooseOutputs(dataset, options.outputs);
  const path = resolve(options.out === '' ? join(folder, 'report.html') : options.out);
  await checkReplaceable(path);
  const facts = readFacts(dataset.manifest);
  const imageFolder = await findImageFolder(options.images || undefined, facts.imageFolder);

  say('reading the metadata');
  const inputs = await collectInputs(dataset, sample, breathe);
  const outputs: CollectedOutput[] = [];
  const pageOutputs: PageOutput[] = [];
  for (const key of keys) {
    say(`reading ${key}`);
    const output = await collectOutput(dataset, key, inputs, breathe);
    say(`comparing ${output.members.length} vectors of ${key}`);
    pageOutputs.push(await describeOutput(output, withUmap, breathe));
    // The vectors of one output at a time are enough.
    outputs.push({ ...output, vectors: { rows: 0, columns: 0, data: new Float32Array() } });
  }
  const page = await readPageFiles();
  const render = ({ pictures }: Pick<Thumbnails, 'pictures'>, notes: readonly string[]): Buffer => {
    const data = assemblePageData(inputs.images, pictures, pageOutputs);
    return Buffer.from(
      renderDocument({ facts, inputs, outputs, data, notes, version: packageVersion(), ...page }),
    );
  };
  const noPictures = inputs.images.map(() => null);
  const room = MAX_FILE_BYTES - render({ pictures: noPictures }, []).length;
  say(`making ${inputs.images.length} pictures`);
  const thumbnails = await makeThumbnails(inputs.images, imageFolder, room, breathe);
  const notes = notesOf(thumbnails, imageFolder);
  const bytes = render(thumbnails, notes);
  await writeAtomically(path, bytes);
  const pictures = thumbnails.pictures.filter((picture) => picture !== null).length;
  return { path, bytes: bytes.length, images: inputs.images.length, pictures, notes };
}

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

/** Only a report is replaced: a wrong path must not cost a photo, or the dataset's manifest. */
async function checkReplaceable(path: string): Promise<void> {
  if (!(await isThere(path))) return;
  const file = await open(path, 'r').catch((error: unknown) => Promise.reject(unwritable(path, error)));
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(REPORT_MARK.length), 0, REPORT_MARK.length, 0);
    if (buffer.toString('latin1', 0, bytesRead) === REPORT_MARK) return;
  } catch (error) {
    throw unwritable(path, error);
  } finally {
    await file.close();
  }
  throw new TapirError('OUTPUT_EXISTS', `cannot write to "${path}": it holds something else than a report`, {
    details: { path },
  });
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

function notesOf({ unreadable, leftOut }: Thumbnails, imageFolder: string | undefined): string[] {
  if (imageFolder === undefined)
    return ['Without pictures: the folder of the images is not here; --images names it.'];
  return [
    ...(unreadable > 0 ? [`${unreadable} images could not be read again and have no picture.`] : []),
    ...(leftOut > 0 ? [`${leftOut} images have no picture, to keep this file below 20 MB.`] : []),
  ];
}
