/** The computed part of a report → what its page is given. */
import { cosineDistances, toUnitLength } from './cosine.js';
import type { Breathe } from './breathe.js';
import type { CollectedOutput } from './collect-output.js';
import type { SampledImage } from './collect-inputs.js';
import { spanForest, suggestDistance } from './duplicates.js';
import { groupByFolder } from './folders.js';
import { shown } from '../pages/html.js';
import { findNeighbours } from './neighbours.js';
import type { PageData, PageImages, PageOutput } from './page/data.js';
import { projectToPca } from './pca.js';
import { MIN_UMAP_ROWS, projectToUmap } from './umap.js';

/** Neighbours listed of each image. */
export const NEIGHBOURS = 8;

/** Computes map, neighbours and groups of an output. */
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
  const about = aboutVectors(members.length, layout.averaged, layout.channels, notFinite);
  return {
    key,
    members: encode(Uint16Array.from(members)),
    pca: encode(Float32Array.from(points)),
    umap: umap ? encode(Float32Array.from(umap)) : null,
    pcaNote: `PCA of the vectors’ directions: across ${first} of the variance, up ${second}. ${about}`,
    umapNote: umap
      ? `UMAP: who is near whom counts, distances across the map do not; wide gaps are shortened. ${about}`
      : withUmap
        ? `UMAP needs ${MIN_UMAP_ROWS} images at least.`
        : 'Made without UMAP.',
    neighbourCount: count,
    neighbours: encode(indices),
    neighbourDistances: encode(near),
    forest: encode(forest.pairs),
    forestDistances: encode(forest.distances),
    sameAs: encode(sameAs),
    duplicateDistance: suggestDistance(distances),
  };
}

function aboutVectors(
  points: number,
  averaged: 'space' | 'tokens' | null,
  channels: number,
  notFinite: number,
): string {
  const of = averaged === null ? '' : `, each the mean over ${averaged}`;
  const without = notFinite === 0 ? '' : ` ${notFinite} with NaN or infinite values are left out.`;
  return `${points} vectors of ${channels} numbers${of}.${without}`;
}

/** Puts together what the page is given. */
export function assemblePageData(
  images: readonly SampledImage[],
  thumbnails: PageImages['thumbnails'],
  outputs: readonly PageOutput[],
): PageData {
  const { names, places } = groupByFolder(images.map(({ path }) => path));
  return {
    images: {
      names: images.map(({ path, row }) => (path === null ? `(row ${row}, given as bytes)` : shown(path))),
      rows: images.map(({ row }) => row),
      sizes: images.map(({ width, height }) =>
        width === null || height === null ? null : ([width, height] as const),
      ),
      thumbnails,
      folders: names.length > 1 ? places : null,
    },
    folders: names.map(shown),
    outputs,
  };
}

/** Node runs on little-endian machines only. */
function encode(numbers: Uint16Array | Float32Array): string {
  return Buffer.from(numbers.buffer, numbers.byteOffset, numbers.byteLength).toString('base64');
}
