/** Counts of photos that another door of a library would have read as other pixels: turned by EXIF, or transparent. */
import type { TriedInput } from '../../photos/feeds/tried-input.js';

/** How many photos there were of each kind, whatever the transform does with them. */
export interface MarkedCounts {
  /** Photos with an EXIF orientation other than 1. */
  readonly turned: number;
  /** Photos with an alpha channel or a transparent colour. */
  readonly transparent: number;
}

export const NOTHING_MARKED: MarkedCounts = { turned: 0, transparent: 0 };

export function addMarked(
  { turned, transparent }: MarkedCounts,
  { marks }: Pick<TriedInput, 'marks'>,
): MarkedCounts {
  return {
    turned: turned + (marks?.isTurned === true ? 1 : 0),
    transparent: transparent + (marks?.isTransparent === true ? 1 : 0),
  };
}

/** The sum of parts. Parts of datasets that did not count them yet count nothing. */
export function sumMarked(parts: readonly (MarkedCounts | undefined)[]): MarkedCounts {
  return parts.reduce<MarkedCounts>(
    (sum, part) => ({
      turned: sum.turned + (part?.turned ?? 0),
      transparent: sum.transparent + (part?.transparent ?? 0),
    }),
    NOTHING_MARKED,
  );
}
