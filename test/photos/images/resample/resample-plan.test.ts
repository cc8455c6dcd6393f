/** What a resampling computes. */
import { describe, expect, it } from 'vitest';
import { planResample } from '../../../../src/photos/images/resample/resample-plan.js';
import { BILINEAR } from '../../../support/samplings.js';

const image = { width: 100, height: 80 };

describe('planResample', () => {
  it('has no pass for a side that keeps its length', () => {
    const all = { left: 0, top: 0, width: 50, height: 80 };
    const plan = planResample(image, { width: 50, height: 80 }, all, BILINEAR);
    expect(plan.rows).toBeNull();
    expect(plan.columns).not.toBeNull();
    expect(plan).toMatchObject({ firstRow: 0, lastRow: 80, firstColumn: 0, lastColumn: 100, offset: 0 });
    const none = planResample(image, image, { left: 3, top: 4, width: 5, height: 6 }, BILINEAR);
    expect(none).toMatchObject({ rows: null, columns: null, width: 5, height: 6 });
    expect(none).toMatchObject({ firstRow: 4, lastRow: 10, firstColumn: 3, lastColumn: 8, pitch: 15 });
  });

  it('reads only what the region needs', () => {
    const region = { left: 20, top: 10, width: 10, height: 10 };
    const plan = planResample(image, { width: 50, height: 40 }, region, BILINEAR);
    // Two pixels on each side of every output pixel's centre.
    expect(plan).toMatchObject({ firstRow: 19, lastRow: 41, firstColumn: 39, lastColumn: 61 });
  });

  it('leaves out what lies beyond the image', () => {
    const region = { left: -5, top: -2, width: 60, height: 50 };
    const plan = planResample(image, { width: 50, height: 40 }, region, BILINEAR);
    expect(plan).toMatchObject({ width: 50, height: 40, pitch: 180, offset: (2 * 60 + 5) * 3 });
  });
});
