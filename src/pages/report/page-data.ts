/** The computed part of a report → the data of its page. */
import { shown } from '../../base/printable.js';
import { encodeNumbers } from '../../html/html.js';
import type { SampledImage } from './collect/collect-inputs.js';
import type { CollectedOutput } from './collect/collect-output.js';
import type { RowLayout } from '../../tensor/vectors/row-layout.js';
import { groupByFolder, groupNames } from './sections/folders.js';
import type { PageData, PageImages, PageOutput, PageServer } from './page/data.js';
import type { Breathe } from '../../tensor/vectors/breathe.js';
import { cosineDistances, toUnitLength } from '../../tensor/vectors/cosine.js';
import { spanForest, suggestDistance } from '../../tensor/vectors/duplicates.js';
import { findNeighbours } from '../../tensor/vectors/neighbours.js';
import { projectToPca } from './collect/pca.js';
import { MIN_UMAP_ROWS, projectToUmap } from './collect/umap.js';

/** Neighbours that the page lists for each image. */
export const NEIGHBOURS = 8;

/** Computes the maps, neighbours and groups of an output. */
export async function describeOutput(
  { key, layout, members, vectors, sameAs, notFinite }: CollectedOutput,
  withUmap: boolean,
  breathe: Breathe,
): Promise<PageOutput> {
  const { points, explained } = await projectToPca(toUnitLength(vectors), breathe);
  const distances = await cosineDistances(vectors, breathe);
  const umap = withUmap ? await projectToUmap(distances, points, breathe) : undefined;
  const { count, indices, distances: near } = findNeighbours(distances, NEIGHBOURS);
  const forest = spanForest(distances);
  const [first, second] = explained.map((share) => `${(100 * share).toFixed(1)} %`);
  const about = describeVectors(members.length, layout, notFinite);
  return {
    key,
    members: encodeNumbers(Uint16Array.from(members)),
    pca: encodeNumbers(Float32Array.from(points)),
    umap: umap ? encodeNumbers(Float32Array.from(umap)) : null,
    pcaNote: `PCA of the vectors’ directions: ${first} of the variance across, ${second} up. ${about}`,
    umapNote: umap
      ? `UMAP: look at which images are close; distances across the map mean little, and wide gaps are shortened. ${about}`
      : withUmap
        ? `UMAP needs at least ${MIN_UMAP_ROWS} images.`
        : 'This report was made without UMAP.',
    neighbourCount: count,
    neighbours: encodeNumbers(indices),
    neighbourDistances: encodeNumbers(near),
    forest: encodeNumbers(forest.pairs),
    forestDistances: encodeNumbers(forest.distances),
    sameAs: encodeNumbers(sameAs),
    duplicateDistance: suggestDistance(distances),
  };
}

function describeVectors(points: number, { averaged, channels }: RowLayout, notFinite: number): string {
  const mean = averaged === null ? '' : `, each the mean over ${averaged}`;
  const without = notFinite === 0 ? '' : ` ${notFinite} with NaN or infinite values are left out.`;
  return `${points} vectors of ${channels} numbers${mean}.${without}`;
}

/** The name of an image on the page. */
export function nameOf({ path, row }: { readonly path: string | null; readonly row: number }): string {
  return path === null ? `(row ${row}, given as bytes)` : shown(path);
}

/**
 * Puts the data of the page together.
 *
 * @param labels - Of the images, which colour the map; undefined to colour it by folder.
 * @param server - What a served page can ask; null for a page that is a file.
 */
export function assemblePageData(
  images: readonly SampledImage[],
  thumbnails: PageImages['thumbnails'],
  outputs: readonly PageOutput[],
  labels: readonly string[] | undefined,
  server: PageServer | null,
): PageData {
  const { names, places } = labels ? groupNames(labels) : groupByFolder(images.map(({ path }) => path));
  return {
    images: {
      names: images.map(nameOf),
      rows: images.map(({ row }) => row),
      sizes: images.map(({ width, height }) =>
        width === null || height === null ? null : ([width, height] as const),
      ),
      thumbnails,
      folders: names.length > 1 ? places : null,
    },
    folders: names.map(shown),
    outputs,
    server,
  };
}
