/** The decoded data of an output. */
import { decodeFloats, decodeShorts, decodeWords } from '../../../html/browser/decode-numbers.js';
import type { PageColumn, PageOutput } from './data.js';

/** The points of an output. */
export interface Points {
  readonly key: string;
  readonly count: number;
  /** Image of each point. */
  readonly members: Uint32Array;
  /** How many points, the first ones, were compared with each other. */
  readonly compared: number;
  readonly columns: readonly PageColumn[];
  readonly pca: Float32Array;
  readonly umap: Float32Array | undefined;
  readonly pcaNote: string;
  readonly umapNote: string;
  readonly forest: Uint16Array;
  readonly forestDistances: Float32Array;
  readonly sameAs: Uint16Array;
  readonly duplicateDistance: number;
  /** The nearest points of a point, with their cosine distances. */
  neighboursOf(point: number): { readonly point: number; readonly distance: number }[];
}

/** Decodes an output. */
export function decodePoints(output: PageOutput): Points {
  const { key, pcaNote, umapNote, neighbourCount, duplicateDistance, compared, columns } = output;
  const members = decodeWords(output.members);
  const neighbours = decodeShorts(output.neighbours);
  const near = decodeFloats(output.neighbourDistances);
  return {
    key,
    pcaNote,
    umapNote,
    duplicateDistance,
    count: members.length,
    members,
    compared,
    columns,
    pca: decodeFloats(output.pca),
    umap: output.umap === null ? undefined : decodeFloats(output.umap),
    forest: decodeShorts(output.forest),
    forestDistances: decodeFloats(output.forestDistances),
    sameAs: decodeShorts(output.sameAs),
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
