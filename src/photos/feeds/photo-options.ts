/** What every call that takes photos has: how a photo becomes pixels, and which rows it gives. */
import { invalidOption, type Options } from '../../base/checks.js';
import { checkedBy, optional, unchecked, type Fields } from '../../base/options.js';
import { CLIP_CUT_FIELDS, planClips, type ClipCutOptions } from '../images/transform/clip-options.js';
import { TILE_FIELDS, type TilesGiven } from '../images/transform/tile-options.js';
import { TRANSFORM_FIELDS, type TransformChoice } from './choose-transform.js';

/** How photos are read, in every call that takes photos. A call that cannot serve `tiles` or `clips` says so with `OPTION_INVALID`. */
export interface PhotoOptions extends TransformChoice {
  /**
   * Cuts each picture into tiles and gives a row for each: see {@link TileOptions}; `size` is required. Pictures may be of any size, and
   * may have more pixels than `limitPixels`.
   * @default undefined
   */
  readonly tiles: TilesGiven | undefined;
  /**
   * Embeds clips, for models that take frames of videos, and gives a row for each: see {@link ClipCutOptions}. Clips are the frames of each
   * folder, in the order of their names, and the pages of GIF and WebP files. A rest that is shorter than a clip is left out.
   * @default undefined
   */
  readonly clips: Options<ClipCutOptions> | undefined;
}

export const PHOTO_FIELDS: Fields<PhotoOptions> = {
  ...TRANSFORM_FIELDS,
  // Checked with the transform.
  tiles: unchecked<TilesGiven | undefined>(undefined, TILE_FIELDS.size.about),
  clips: optional(
    (_option, value) => planClips(value as Options<ClipCutOptions>),
    CLIP_CUT_FIELDS.frames.about,
  ),
};

/**
 * The fields of a call that does not serve all of the options. An option with a reason is refused: it is never ignored.
 *
 * @param reasons - Why it must be left out, and what to do instead, by option.
 */
export function photoFields(
  reasons: Readonly<Partial<Record<'tiles' | 'clips', string>>>,
): Fields<PhotoOptions> {
  const refused = Object.entries(reasons).map(([name, reason]) => {
    const refuse = (option: string, value: unknown): undefined => {
      if (value !== undefined) throw invalidOption(option, `left out here: ${reason}`, value);
    };
    return [name, checkedBy(refuse, undefined)];
  });
  return { ...PHOTO_FIELDS, ...(Object.fromEntries(refused) as object) };
}
