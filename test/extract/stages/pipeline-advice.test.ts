import { describe, expect, it } from 'vitest';
import { adviseDevices } from '../../../src/extract/stages/pipeline-advice.js';

const stage = (runMs: number, devices = 1, runs = 20) => ({ runMs, devices, runs });

describe('adviseDevices', () => {
  it('says how many devices balance a slow stage', () => {
    expect(adviseDevices([stage(100), stage(300), stage(90)])).toMatch(
      /^stage 1 takes 61 % of the time on one device, .*: 3 devices would balance/,
    );
    expect(adviseDevices([stage(100), stage(500, 2)])).toMatch(/on 2 devices.*: 5 devices would balance/);
  });

  it('says nothing of stages that are balanced, of too few runs, and of one stage', () => {
    expect(adviseDevices([stage(100), stage(110)])).toBeNull();
    expect(adviseDevices([stage(100), stage(200, 2)])).toBeNull();
    expect(adviseDevices([stage(100), stage(900, 1, 3)])).toBeNull();
    expect(adviseDevices([stage(900)])).toBeNull();
  });
});
