/** How alike the vectors of two peers are. */
import { join } from 'node:path';
import { readNpy } from '../../test/support/npy.js';
import { spreadOf, type Spread } from '../measure.js';
import { isOurs, OURS } from './peer-table.js';

/** A file per output. */
export type Features = Readonly<Record<string, string>>;

/** The files that the peers write. */
export function peerFeatures(out: string, request: readonly string[]): Features {
  return Object.fromEntries(request.map((name) => [name, join(out, `${name}.npy`)]));
}

/** The files of a dataset. */
export function datasetFeatures(out: string, request: readonly string[]): Features {
  return Object.fromEntries(request.map((name) => [name, join(out, 'features', name, `${name}-00000.npy`)]));
}

/** How alike two peers are in one output. */
interface OutputLikeness {
  /** Cosines of the rows. */
  readonly cosine: Spread;
  /** The largest difference of all numbers. */
  readonly mostApart: number;
  /** The same, divided by the range of the reference's numbers. */
  readonly ofRange: number;
}

export type Likeness = Record<string, OutputLikeness>;

/** A peer's vectors against those of another, and what they are held to. */
export interface Compared {
  readonly name: string;
  readonly reference: string;
  readonly likeness: Likeness;
  readonly bar: string | null;
  /** Per output. */
  readonly holds: Readonly<Record<string, boolean>>;
}

const MOST_OF_RANGE = 1e-4;
const LEAST_COSINE = 0.998;

interface Writing {
  readonly name: string;
  readonly features: Features;
}

/**
 * All peers that write vectors against torchvision's in float32, or against ours where that did not run; and ours on other engines
 * against ours on ONNX Runtime, which gets the same pixels.
 */
export function compareAll(
  peers: readonly { readonly name: string; readonly features: Features | null }[],
): Compared[] {
  const writing = peers.flatMap(({ name, features }) => (features ? [{ name, features }] : []));
  const torch = writing.find(({ name }) => /^torchvision(?:-channels-last)?$/u.test(name));
  const ours = writing.find(({ name }) => name === OURS)!;
  const withTorch = writing.filter(({ name }) => torch !== undefined && name !== torch.name);
  const withOurs = writing.filter(({ name }) => name !== OURS && (torch === undefined || isOurs(name)));
  return [
    ...withTorch.map((peer) => compareTwo(peer, torch!)),
    ...withOurs.map((peer) => compareTwo(peer, ours)),
  ];
}

function compareTwo(given: Writing, reference: Writing): Compared {
  const likeness = compareFeatures(given.features, reference.features);
  const names = { name: given.name, reference: reference.name, likeness };
  if (reference.name !== OURS || !isOurs(given.name)) return { ...names, bar: null, holds: {} };
  const isFloat32 = given.name.endsWith('float32');
  const holds = Object.entries(likeness).map(([output, { cosine, ofRange }]): [string, boolean] => [
    output,
    isFloat32 ? ofRange <= MOST_OF_RANGE : cosine.min >= LEAST_COSINE,
  ]);
  const bar = isFloat32 ? `of the range <= ${MOST_OF_RANGE}` : `least cosine >= ${LEAST_COSINE}`;
  return { ...names, bar, holds: Object.fromEntries(holds) };
}

export function compareFeatures(given: Features, reference: Features): Likeness {
  const likeness: Likeness = {};
  for (const [name, file] of Object.entries(reference)) {
    const a = readNpy(given[name]!);
    const b = readNpy(file);
    if (String(a.dims) !== String(b.dims))
      throw new Error(`${given[name]!} is [${a.dims.join(', ')}], ${file} [${b.dims.join(', ')}]`);
    likeness[name] = compareRows(a.data as Float32Array, b.data as Float32Array, a.dims[0]!);
  }
  return likeness;
}

function compareRows(a: Float32Array, b: Float32Array, rows: number): OutputLikeness {
  const size = a.length / rows;
  let mostApart = 0;
  let [least, most] = [Infinity, -Infinity];
  const cosines = Array.from({ length: rows }, (_, row) => {
    let [dot, aa, bb] = [0, 0, 0];
    for (let i = row * size; i < (row + 1) * size; i++) {
      dot += a[i]! * b[i]!;
      aa += a[i]! ** 2;
      bb += b[i]! ** 2;
      mostApart = Math.max(mostApart, Math.abs(a[i]! - b[i]!));
      least = Math.min(least, b[i]!);
      most = Math.max(most, b[i]!);
    }
    return dot / Math.sqrt(aa * bb);
  });
  return { cosine: spreadOf(cosines), mostApart, ofRange: mostApart / (most - least) };
}
