/** A black photo, for runs that only show what a model gives. */
import { shareImage } from '../images/transform/share-image.js';
import type { Transform } from '../images/transform/transform.js';
import type { HeldPhoto } from './feed-plan.js';

/** The sides of a small photo. */
const SIDE = 224;

/** A black photo as a transform leaves it. */
export function blankPhoto(transform: Transform): HeldPhoto {
  const black = { height: SIDE, width: SIDE, data: new Uint8Array(SIDE * SIDE * 3) };
  return shareImage(transform.isFloat ? transform.applyFloat(black) : transform.apply(black));
}
