/** The flags that say how photos become pixels; every command that reads photos has them. */
import type { TransformChoice } from '../../photos/feeds/choose-transform.js';

/** Values of {@link TRANSFORM_FLAGS}. */
export interface TransformFlags extends Partial<TransformChoice> {
  readonly transform: string;
}

/** By option. */
export const TRANSFORM_FLAGS: Record<keyof TransformChoice, string> = {
  transform: '--transform <name>',
};
