/** The computed part of a report → the data of its page. */
import { shown } from '../../base/printable.js';
import { encodeNumbers } from '../../html/html.js';
import { findComponents } from '../base/principal-components.js';
import type { SampledImage } from './collect/collect-inputs.js';
import type { CollectedOutput } from './collect/collect-output.js';
import type { RowLayout } from '../../tensor/vectors/row-layout.js';
import type { PageData, PageImages, PageOutput, PageServer } from './page/data.js';
import type { Breathe } from '../../tensor/vectors/breathe.js';
import { cosineDistances, toUnitLength } from '../../tensor/vectors/cosine.js';
import { spanForest, suggestDistance } from '../../tensor/vectors/duplicates.js';
import { findNeighbours } from '../../tensor/vectors/neighbours.js';
import { MIN_UMAP_ROWS, projectToUmap } from './collect/umap.js';

/** Neighbours that the page lists for each image. */
export const NEIGHBOURS = 8;

/** Computes the maps, neighbours and groups of an output. */
export async function describeOutput(
  { key, layout, members, vectors, sameAs, notFinite }: CollectedOutput,
  withUmap: boolean,
  breathe: Breathe,
): Promise<PageOutput> {
  const { places, explained } = await findComponents(toUnitLength(vectors), 2, breathe);
  const points = Float64Array.from(places[0]!.flatMap((x, row) => [x, places[1]![row]!]));
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

/** Names of folders, and for each path the place of its folder among them. */
interface FolderGroups {
  readonly names: readonly string[];
  readonly places: readonly number[];
}

/** As many names as there are distinct colours. With more folders, the last name stands for the rest. */
const MAX_NAMES = 8;
const REST = 'other';
const TOP = '(top)';

/** Groups paths by the first folder in which they differ. The largest groups keep their names, the rest become one group. */
export function groupByFolder(paths: readonly (string | null)[]): FolderGroups {
  const folders = paths.map((path) => (path ?? '').split('/').slice(0, -1));
  const shared = sharedDepth(folders);
  return groupNames(folders.map((folder) => folder[shared] ?? TOP));
}

/** Groups names: the most frequent ones stay, the rest become one group. */
function groupNames(names: readonly string[]): FolderGroups {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const kept = [...counts.keys()]
    .toSorted((a, b) => counts.get(b)! - counts.get(a)! || (a < b ? -1 : 1))
    .slice(0, counts.size > MAX_NAMES ? MAX_NAMES - 1 : MAX_NAMES)
    .toSorted((a, b) => (a < b ? -1 : 1));
  const all = counts.size > kept.length ? [...kept, REST] : kept;
  const placeOf = new Map(kept.map((name, place) => [name, place]));
  return { names: all, places: names.map((name) => placeOf.get(name) ?? kept.length) };
}

/** The number of leading folders that all paths share. */
function sharedDepth(folders: readonly (readonly string[])[]): number {
  const [first = []] = folders;
  let depth = first.length;
  for (const folder of folders) {
    let same = 0;
    while (same < depth && folder[same] === first[same]) same++;
    depth = same;
  }
  return depth;
}
