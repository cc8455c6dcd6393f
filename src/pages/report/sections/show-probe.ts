/** What a report shows of a probe. */
import type { Dataset } from '../../../datasets/files/dataset.js';
import type { Breathe } from '../../../tensor/vectors/breathe.js';
import { NO_LABEL, readLabels } from '../../../features/probe/rows/labels.js';
import type { Probe } from '../../../features/probe/probe.js';
import type { SampledImage } from '../collect/collect-inputs.js';
import type { ProbePart } from './probe-section.js';
import { makeThumbnails } from './thumbnails.js';

/** Suspects with a picture. */
const MOST_SUSPECTS = 60;
/** Size limit of their pictures. */
const PICTURE_BYTES = 1e6;
const UNLABELLED = '(no label)';

/** A probe as the page needs it. */
export interface ShownProbe {
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
export async function showProbe(
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
