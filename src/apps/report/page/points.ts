/** An output, decoded. */
import type { PageOutput } from './data.js';
import { decodeFloats, decodeShorts } from './decode.js';

/** The points of an output, and what is known of them. */
export interface Points {
  readonly key: string;
  readonly count: number;
  /** Image of each point. */
  readonly members: Uint16Array;
  readonly pca: Float32Array;
  readonly umap: Float32Array | undefined;
  readonly pcaNote: string;
  readonly umapNote: string;
  readonly forest: Uint16Array;
  readonly forestDistances: Float32Array;
  readonly sameAs: Uint16Array;
  readonly duplicateDistance: number;
  /** The nearest points of one, with their cosine distances. */
  neighboursOf(point: number): { readonly point: number; readonly distance: number }[];
}

/** Decodes an output. */
export function decodePoints(output: PageOutput): Points {
  const { key, pcaNote, umapNote, neighbourCount, duplicateDistance } = output;
  const members = decodeShorts(output.members);
  const neighbours = decodeShorts(output.neighbours);
  const near = decodeFloats(output.neighbourDistances);
  return {
    key,
    pcaNote,
    umapNote,
    duplicateDistance,
    count: members.length,
    members,
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
