/** How far features in another precision are from those in float32. */

/** The cosines of an output. */
export interface OutputCosines {
  readonly least: number;
  readonly mean: number;
}

/** Features that were compared with those of the same model in float32, on the same pixels. */
export interface Float32Comparison {
  /** The number of images that were compared. */
  readonly images: number;
  /** By output key: the cosine between the two features of an image. It is 1 if they have the same direction. */
  readonly cosine: Readonly<Record<string, OutputCosines>>;
}

/** Returns the comparison that the latest shard recorded. It covers the shards before it. */
export function latestComparison(
  shards: readonly { readonly againstFloat32?: Float32Comparison }[],
): Float32Comparison | undefined {
  return shards.findLast((shard) => shard.againstFloat32)?.againstFloat32;
}

/** Joins comparisons of different images. Returns undefined if there are no comparisons. */
export function joinComparisons(parts: readonly Float32Comparison[]): Float32Comparison | undefined {
  const [first] = parts;
  if (!first) return undefined;
  const images = parts.reduce((sum, part) => sum + part.images, 0);
  const cosine = Object.keys(first.cosine).map((key) => {
    const all = parts.flatMap((part) => {
      const own = part.cosine[key];
      return own ? [{ ...own, sum: own.mean * part.images }] : [];
    });
    const least = Math.min(...all.map((own) => own.least));
    // Rounding must not lift the mean of ones above 1.
    const mean = Math.min(1, all.reduce((sum, own) => sum + own.sum, 0) / images);
    return [key, { least, mean }] as const;
  });
  return { images, cosine: Object.fromEntries(cosine) };
}

/** Returns the output with the least cosine; undefined if there are no outputs. */
export function leastCosine({ cosine }: Float32Comparison): { key: string; least: number } | undefined {
  const outputs = Object.entries(cosine).map(([key, { least }]) => ({ key, least }));
  return outputs.toSorted((one, other) => one.least - other.least)[0];
}

/** `cosine ≥ 0.9993 (embedding), ≥ 0.9981 (map)`: rounded down, so that it is true. */
export function describeCosines(cosine: Readonly<Record<string, Pick<OutputCosines, 'least'>>>): string {
  const outputs = Object.entries(cosine).map(([key, { least }]) => {
    const rounded = Math.floor(least * 1e4) / 1e4;
    return `≥ ${rounded.toFixed(4)} (${key})`;
  });
  return `cosine ${outputs.join(', ')}`;
}
