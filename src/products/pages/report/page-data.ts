/** The computed part of a report → the data of its page. */
import { shown } from '../../../base/printable.js';
import type { BeginStep, Tell } from '../../../base/progress.js';
import { cosineDistances, toUnitLength, type Distances } from '../../../onnx/tensor/vectors/cosine.js';
import { findComponents } from '../../../onnx/tensor/vectors/find-components.js';
import { findNeighbours } from '../../../onnx/tensor/vectors/neighbours.js';
import { spanForest, suggestDistance } from '../../../onnx/tensor/vectors/duplicates.js';
import type { Breathe } from '../../../onnx/tensor/vectors/breathe.js';
import type { RowLayout } from '../../../onnx/tensor/vectors/row-layout.js';
import type { Dataset } from '../../../datasets/files/dataset.js';
import { encodeNumbers } from '../../../base/html/html.js';
import { formatCount } from '../../../base/html/numbers.js';
import { findClusters } from './collect/clusters.js';
import { nameOf, nounOf, type Inputs, type SampledImage } from './collect/collect-inputs.js';
import type { CollectedOutput } from './collect/collect-output.js';
import { placeRest, type Rest } from './collect/place-rest.js';
import type { PageColumn, PageData, PageImages, PageOutput, PageServer } from './page/data.js';
import { MIN_UMAP_ROWS, projectToUmap } from './collect/umap.js';

/** Neighbours that the page lists for each image, and on a map of many images. */
const [NEIGHBOURS, FEW_NEIGHBOURS] = [8, 4];

/** What describing an output needs besides its vectors. */
export interface Describing {
  readonly dataset: Dataset;
  readonly inputs: Inputs;
  readonly withUmap: boolean;
  readonly breathe: Breathe;
  readonly signal: AbortSignal | undefined;
  readonly begin: BeginStep;
}

/** Computes the maps, neighbours and groups of an output. */
export async function describeOutput(output: CollectedOutput, describing: Describing): Promise<PageOutput> {
  const { dataset, inputs, withUmap, breathe, signal, begin } = describing;
  const { key, layout, members, vectors, sameAs, lengths } = output;
  begin(`comparing ${members.length} vectors of ${key}`);
  const unit = toUnitLength(vectors);
  const { places, explained } = await findComponents(unit, 2, breathe);
  const pca = Float64Array.from(places[0]!.flatMap((x, row) => [x, places[1]![row]!]));
  const distances = await cosineDistances(vectors, breathe);
  const hasRest = members.length + output.notFinite < inputs.images.length;
  const near = findNeighbours(distances, hasRest ? FEW_NEIGHBOURS : NEIGHBOURS);
  const clusters = await findClusters(unit, breathe);
  const umap = withUmap ? await layOutByUmap(distances, pca, describing) : undefined;
  const forest = spanForest(distances);
  const tell = begin(`placing all vectors of ${key}`, 'rows', inputs.ok);
  const rest =
    hasRest && members.length > 0
      ? await placeRest(dataset, inputs, output, { pca, umap }, near.count, signal, tell)
      : NO_REST;
  const all = <Type extends Uint16Array | Float32Array>(
    type: { from(values: Iterable<number>): Type },
    first: Iterable<number>,
    then: readonly number[],
  ): string => encodeNumbers(type.from([...first, ...then]));
  const ofNearest = rest.members.map((_, i) => clusters[rest.neighbours[i * near.count]!]!);
  const meanOf = (values: ArrayLike<number>, count: number): number[] =>
    Array.from({ length: count }, (_, i) => {
      let sum = 0;
      for (let k = 0; k < near.count; k++) sum += values[i * near.count + k]!;
      return near.count === 0 ? 0 : sum / near.count;
    });
  const [first, second] = explained.map((share) => `${(100 * share).toFixed(1)} %`);
  const count = members.length + rest.members.length;
  const about = describeVectors(count, inputs.images.length - count, layout);
  const placed = hasRest
    ? ` ${formatCount(members.length)} were compared with each other; each of the others lies among those nearest to it.`
    : '';
  return {
    key,
    members: encodeNumbers(Uint32Array.from([...members, ...rest.members])),
    compared: members.length,
    columns: [
      {
        name: 'cluster',
        names: Array.from({ length: Math.max(0, ...clusters) + 1 }, (_, i) => `cluster ${i + 1}`),
        places: all(Uint16Array, clusters, ofNearest),
      },
      {
        name: 'mean distance to its neighbours',
        values: all(
          Float32Array,
          meanOf(near.distances, members.length),
          meanOf(rest.distances, rest.members.length),
        ),
      },
      { name: 'length of the vector', values: all(Float32Array, lengths, rest.lengths) },
    ],
    pca: all(Float32Array, pca, rest.pca),
    umap: umap ? all(Float32Array, umap, rest.umap) : null,
    pcaNote: `PCA of the vectors’ directions: ${first} of the variance across, ${second} up. ${about}`,
    umapNote: umap
      ? `UMAP: look at which images are close; distances across the map mean little, and wide gaps are shortened. ${about}${placed}`
      : withUmap
        ? `UMAP needs at least ${MIN_UMAP_ROWS} images.`
        : 'This report was made without UMAP.',
    neighbourCount: near.count,
    neighbours: all(Uint16Array, near.indices, rest.neighbours),
    neighbourDistances: all(Float32Array, near.distances, rest.distances),
    forest: encodeNumbers(forest.pairs),
    forestDistances: encodeNumbers(forest.distances),
    sameAs: encodeNumbers(sameAs),
    duplicateDistance: suggestDistance(distances),
  };
}

const NO_REST: Rest = { members: [], pca: [], umap: [], neighbours: [], distances: [], lengths: [] };

function layOutByUmap(
  distances: Distances,
  pca: Float64Array,
  { breathe, begin }: Describing,
): Promise<Float64Array | undefined> {
  let tell: Tell | undefined;
  return projectToUmap(distances, pca, breathe, (done, of) => {
    tell ??= begin('laying out by UMAP', 'rounds', of);
    tell(done);
  });
}

function describeVectors(points: number, notFinite: number, { averaged, channels }: RowLayout): string {
  const mean = averaged === null ? '' : `, each the mean over ${averaged}`;
  const without = notFinite === 0 ? '' : ` ${notFinite} with NaN or infinite values are left out.`;
  return `${formatCount(points)} vectors of ${channels} numbers${mean}.${without}`;
}

/** A class for each image, such as a label. */
export interface NamedLabels {
  readonly name: string;
  /** Null for an image without a class. */
  readonly labels: readonly (string | null)[];
  /** What stands in the legend for images without a class. */
  readonly missing: string;
}

/** Classes as a column of the page. */
export function classColumn({ name, labels, missing }: NamedLabels): Extract<PageColumn, { names: unknown }> {
  return toColumn({ name, ...groupNames(labels, missing) });
}

function toColumn({ name, names, places }: ClassGroups & { readonly name: string }) {
  return { name: shown(name), names: names.map(shown), places: encodeNumbers(Uint16Array.from(places)) };
}

/**
 * Puts the data of the page together.
 *
 * @param thumbnails - By the place of the image.
 * @param labels - Further columns; the map is coloured by the first of them, else by folder.
 * @param own - The columns of the dataset itself.
 * @param server - What a served page can ask; null for a page that is a file.
 */
export function assemblePageData(
  images: readonly SampledImage[],
  thumbnails: PageImages['thumbnails'],
  outputs: readonly PageOutput[],
  labels: readonly NamedLabels[],
  own: readonly PageColumn[],
  server: PageServer | null,
): PageData {
  const sides = images.map(({ width, height }) => Math.sqrt((width ?? Number.NaN) * (height ?? Number.NaN)));
  const folders = { name: 'folder', ...groupByFolder(images.map(({ path }) => path)) };
  const classes = [...labels.map(classColumn), toColumn(folders)];
  if (nounOf(images) !== 'images')
    classes.push(classColumn({ name: 'picture', labels: images.map(({ path }) => path), missing: '' }));
  return {
    images: {
      names: images.map(nameOf),
      paths: Object.fromEntries(
        images.flatMap(({ path }, i) => (path === null || shown(path) === path ? [] : [[i, path]])),
      ),
      rows: images.map(({ row }) => row),
      sizes: images.map(({ width, height }) =>
        width === null || height === null ? null : ([width, height] as const),
      ),
      thumbnails,
    },
    columns: [
      ...classes.filter(({ names }) => names.length > 1),
      ...(new Set(sides.filter(Number.isFinite)).size > 1
        ? [{ name: 'side in pixels', values: encodeNumbers(Float32Array.from(sides)) }]
        : []),
      ...datesOf(images),
      ...own,
    ],
    outputs,
    server,
  };
}

/** When the files were last changed, if they differ: the metadata has no other date. */
function datesOf(images: readonly SampledImage[]): PageColumn[] {
  const times = images.map(({ modifiedMs }) => modifiedMs ?? Number.NaN);
  const known = new Set(times.filter(Number.isFinite));
  if (known.size < 2) return [];
  const since = [...known].reduce((first, time) => Math.min(first, time));
  // Float32 has the digits for seconds after the first file, and not for seconds since 1970.
  const values = encodeNumbers(Float32Array.from(times, (time) => (time - since) / 1000));
  return [{ name: 'date of the file', values, since }];
}

/** Names of classes, and for each image the place of its class among them. */
interface ClassGroups {
  readonly names: readonly string[];
  readonly places: readonly number[];
}

/** As many names as there are distinct colours. With more, one name stands for the rest. */
export const MAX_NAMES = 20;
const TOP = '(top)';

/** Groups paths by the first folder in which they differ. The largest groups keep their names, the rest become one group. */
export function groupByFolder(paths: readonly (string | null)[]): ClassGroups {
  const folders = paths.map((path) => (path ?? '').split('/').slice(0, -1));
  const shared = sharedDepth(folders);
  return groupNames(folders.map((folder) => folder[shared] ?? TOP));
}

/** Groups names: the most frequent ones stay, the rest become one group, and those without a name another one. */
function groupNames(names: readonly (string | null)[], missing = ''): ClassGroups {
  const counts = new Map<string, number>();
  for (const name of names) if (name !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
  const last = names.includes(null) ? [missing] : [];
  const room = MAX_NAMES - last.length;
  const kept = [...counts.keys()]
    .toSorted((a, b) => counts.get(b)! - counts.get(a)! || (a < b ? -1 : 1))
    .slice(0, counts.size > room ? room - 1 : room)
    .toSorted((a, b) => (a < b ? -1 : 1));
  // In brackets, and with their number: a class may be called "other".
  const rest = counts.size > kept.length ? [`(${counts.size - kept.length} others)`] : [];
  const all = [...kept, ...rest, ...last];
  const placeOf = new Map(kept.map((name, place) => [name, place]));
  const places = names.map((name) => (name === null ? all.length - 1 : (placeOf.get(name) ?? kept.length)));
  return { names: all, places };
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
