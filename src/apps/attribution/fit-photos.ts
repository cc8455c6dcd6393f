/** Photos as the model of an attribution takes them. */
import { fitTransform } from '../../embed/image-input.js';
import type { Attribution } from '../../extract/attribution/attribution.js';
import type { Transform } from '../../image/transform.js';

/** Fits a transform to the image input. Throws `OPTION_INVALID` if its images have another size or other channels. */
export function fitPhotos({ inputs }: Attribution, transform: Transform): Transform {
  const { feed } = fitTransform({ inputs, imageNormalization: null }, transform);
  return transform.with({ layout: feed.isLast ? 'nhwc' : 'nchw' });
}
