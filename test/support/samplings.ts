/** How pixels are resampled, for tests. */
import fc from 'fast-check';
import { INTERPOLATIONS, type Sampling } from '../../src/photos/images/resample/kernel.js';

export const BILINEAR: Sampling = { interpolation: 'bilinear', resampler: 'pillow' };
export const BICUBIC: Sampling = { interpolation: 'bicubic', resampler: 'pillow' };

/** Every kind that there is. */
export const samplings: fc.Arbitrary<Sampling> = fc.constantFrom<Sampling>(
  ...INTERPOLATIONS.map((interpolation) => ({ interpolation, resampler: 'pillow' as const })),
  ...(['nearest', 'bilinear', 'bicubic'] as const).map((interpolation) => ({
    interpolation,
    resampler: 'torch' as const,
  })),
);
