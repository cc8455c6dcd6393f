/** Photos as a model takes them. */
import { layOut } from '../../feeds/picture-feeds.js';
import { planPicture } from '../../feeds/plan-feeds.js';
import type { Attribution } from '../attribution.js';
import type { Transform } from '../../images/transform/transform.js';

/** Fits a transform to the image input. Throws `OPTION_INVALID` if its images have another size or other channels. */
export function fitPhotos({ inputs }: Pick<Attribution, 'inputs'>, transform: Transform): Transform {
  return layOut(planPicture({ inputs, imageNormalization: null }, transform));
}
