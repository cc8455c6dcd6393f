/** How alike the vectors of two peers are. */
import { join } from 'node:path';
import { readNpy } from '../../test/support/npy.js';
import { spreadOf, type Spread } from '../measure.js';
import { REQUEST } from './prepare.js';

type Features = Readonly<Record<(typeof REQUEST)[number], string>>;

/** The files that the peers write. */
export function peerFeatures(out: string): Features {
  return { layer4: join(out, 'layer4.npy'), avgpool: join(out, 'avgpool.npy') };
}

/** The files of a dataset. */
export function datasetFeatures(out: string): Features {
  const file = (name: string): string => join(out, 'features', name, `${name}-00000.npy`);
  return { layer4: file('layer4'), avgpool: file('avgpool') };
}

/** Per output: cosines of the rows of two peers, and the largest difference of all numbers. */
export type Likeness = Record<string, { readonly cosine: Spread; readonly mostApart: number }>;

export function compareFeatures(given: Features, reference: Features): Likeness {
  const likeness: Likeness = {};
  for (const name of REQUEST) {
    const a = readNpy(given[name]);
    const b = readNpy(reference[name]);
    if (String(a.dims) !== String(b.dims))
      throw new Error(`${given[name]} is [${a.dims.join(', ')}], ${reference[name]} [${b.dims.join(', ')}]`);
    likeness[name] = compareRows(a.data as Float32Array, b.data as Float32Array, a.dims[0]!);
  }
  return likeness;
}

function compareRows(a: Float32Array, b: Float32Array, rows: number): Likeness[string] {
  const size = a.length / rows;
  let mostApart = 0;
  const cosines = Array.from({ length: rows }, (_, row) => {
    let [dot, aa, bb] = [0, 0, 0];
    for (let i = row * size; i < (row + 1) * size; i++) {
      dot += a[i]! * b[i]!;
      aa += a[i]! ** 2;
      bb += b[i]! ** 2;
      mostApart = Math.max(mostApart, Math.abs(a[i]! - b[i]!));
    }
    return dot / Math.sqrt(aa * bb);
  });
  return { cosine: spreadOf(cosines), mostApart };
}
