/** The decoded data of an output. */
import { decodeNumbers } from '../../../../base/html/browser/decode-numbers.js';
import type { PageOutput } from './data.js';

/** The points of an output. */
export interface Points extends Pick<
  PageOutput,
  'key' | 'compared' | 'columns' | 'pcaNote' | 'umapNote' | 'duplicateDistance'
> {
  readonly count: number;
  /** Image of each point. */
  readonly members: Uint32Array;
  readonly pca: Float32Array;
  readonly umap: Float32Array | undefined;
  readonly forest: Uint16Array;
  readonly forestDistances: Float32Array;
  readonly sameAs: Uint16Array;
  /** The nearest points of a point, with their cosine distances. */
  neighboursOf(point: number): { readonly point: number; readonly distance: number }[];
}

/** Decodes an output. */
export function decodePoints(output: PageOutput): Points {
  const { neighbourCount } = output;
  const members = decodeNumbers(Uint32Array, output.members);
  const neighbours = decodeNumbers(Uint16Array, output.neighbours);
  const near = decodeNumbers(Float32Array, output.neighbourDistances);
  return {
    ...output,
    count: members.length,
    members,
    pca: decodeNumbers(Float32Array, output.pca),
    umap: output.umap === null ? undefined : decodeNumbers(Float32Array, output.umap),
    forest: decodeNumbers(Uint16Array, output.forest),
    forestDistances: decodeNumbers(Float32Array, output.forestDistances),
    sameAs: decodeNumbers(Uint16Array, output.sameAs),
    neighboursOf: (point) =>
      Array.from({ length: neighbourCount }, (_, i) => ({
        point: neighbours[point * neighbourCount + i]!,
        distance: near[point * neighbourCount + i]!,
      })),
  };
}

/** One minus a cosine distance, with enough digits to tell it from 1. */
export function formatCosine(distance: number): string {
  if (distance <= 0) return '1';
  const digits = Math.max(3, Math.min(9, Math.ceil(-Math.log10(distance)) + 1));
  return (1 - distance).toFixed(digits);
}
