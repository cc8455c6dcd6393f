/** What a probe says of the images of a report. */
import { NO_LABEL, readLabels, type RowLabels } from '../../../datasets/labels/labels.js';
import type { Breathe } from '../../../onnx/tensor/vectors/breathe.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import { predictProbe, type Probe } from '../../features/probe/probe.js';
import type { SampledImage } from './collect/collect-inputs.js';
import type { NamedLabels } from './page-data.js';
import type { ProbePart } from './sections/probe-section.js';
import { makeThumbnails } from './sections/thumbnails.js';

/** Suspects with a picture. */
const MOST_SUSPECTS = 60;
/** Size limit of their pictures. */
const PICTURE_BYTES = 1e6;
/** Multiplications that predictions may take: half a minute. */
const MOST_PRODUCTS = 2e10;

/** A probe as the page needs it. */
interface ShownProbe {
  readonly part: ProbePart;
  /** The labels of the sampled images, if the probe says where they come from, and its predictions. */
  readonly columns: readonly NamedLabels[];
  readonly notes: readonly string[];
}

/** Reads the labels of the images again, predicts them, and makes the pictures of suspected ones if the folder is known. */
export async function showProbe(
  dataset: Dataset,
  probe: Probe,
  images: readonly SampledImage[],
  folder: string | undefined,
  breathe: Breathe,
): Promise<ShownProbe> {
  const suspects = (probe.results?.suspects ?? []).slice(0, MOST_SUSPECTS);
  const listed = suspects.map(({ path }) => ({ path }));
  const { pictures } = await makeThumbnails(listed, folder, PICTURE_BYTES, breathe);
  const part = {
    probe,
    suspects: suspects.map((suspect, i) => ({ suspect, picture: pictures[i] ?? null })),
  };
  const labels = probe.labels === null ? undefined : await readLabels(dataset, probe.labels);
  const predictions = await predictImages(dataset, probe, images, breathe);
  return {
    part,
    columns: [
      ...(labels ? [namedLabels('label', images, labels)] : []),
      ...(predictions ? [{ name: 'prediction', labels: predictions, missing: '(no prediction)' }] : []),
    ],
    notes: [
      ...(labels ? [] : ['The map has no labels, because those of the probe were given as a Map.']),
      ...(predictions
        ? []
        : ['The map has no predictions: the dataset lacks the vectors of the probe, or there are too many.']),
    ],
  };
}

/** The labels of images, by a name. */
export function namedLabels(
  name: string,
  images: readonly SampledImage[],
  { classes, ofRow }: RowLabels,
): NamedLabels {
  const labels = images.map(({ row }) => classes[ofRow[row] ?? NO_LABEL] ?? null);
  return { name, labels, missing: '(no label)' };
}

/** The classes that a probe gives images; undefined if the dataset lacks its feature, or if it would take too long. */
async function predictImages(
  dataset: Dataset,
  probe: Probe,
  images: readonly SampledImage[],
  breathe: Breathe,
): Promise<(string | null)[] | undefined> {
  const { key, dims, head } = probe;
  const products = head.type === 'linear' ? head.weight.length : head.vectors.length;
  const isHere = String(dataset.manifest.features[key]?.dims) === String(dims);
  if (!isHere || products * images.length > MOST_PRODUCTS) return undefined;
  const placeOf = new Map(images.map(({ row }, place) => [row, place]));
  const predictions = images.map((): string | null => null);
  for await (const { firstRow, rows, data } of dataset.blocks(key))
    for (let row = 0; row < rows; row++) {
      await breathe();
      const place = placeOf.get(firstRow + row);
      const vector = data.subarray((row * data.length) / rows, ((row + 1) * data.length) / rows);
      if (place !== undefined && vector.every(Number.isFinite))
        predictions[place] = predictProbe(probe, vector).label;
    }
  return predictions;
}
