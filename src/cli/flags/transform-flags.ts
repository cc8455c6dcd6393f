/** The flags that say how photos become pixels; every command that reads photos has them. */
import type { TransformChoice } from '../../photos/feeds/choose-transform.js';
import { rare } from './rare.js';

/** Values of {@link TRANSFORM_FLAGS}. */
export interface TransformFlags extends Partial<TransformChoice> {
  readonly transform: string;
}

/** By option. */
export const TRANSFORM_FLAGS: Record<keyof TransformChoice, string> = {
  transform: '--transform <name>',
  orientation: rare('--orientation <how>'),
  alpha: rare('--alpha <how>'),
  backend: rare('--backend <name>'),
  resampler: rare('--resampler <name>'),
  crops: rare('--crops <which>'),
  size: rare('--size <size>'),
};
