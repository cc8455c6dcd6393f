/** Photos as the model of an attribution takes them. */
import { fitTransform } from '../../datasets/embed/image-input.js';
import type { Attribution } from '../attribution.js';
import type { Transform } from '../../images/transform/transform.js';

/** Fits a transform to the image input. Throws `OPTION_INVALID` if its images have another size or other channels. */
export function fitPhotos({ inputs }: Attribution, transform: Transform): Transform {
  const { feed } = fitTransform({ inputs, imageNormalization: null }, transform);
  return transform.with({ layout: feed.isLast ? 'nhwc' : 'nchw' });
}
