import { describe, expect, it } from 'vitest';
import { LANE_DEFAULTS, readLaneOptions } from '../../../../src/run/runtime/lanes/lane-options.js';

describe('readLaneOptions', () => {
  it('fills in defaults, also for options that are undefined', () => {
    expect(readLaneOptions({})).toEqual(LANE_DEFAULTS);
    expect(readLaneOptions({ isolation: undefined, cacheBytes: undefined })).toEqual(LANE_DEFAULTS);
    expect(
      readLaneOptions({ isolation: 'process', exitTimeoutMs: 0, cache: 'off', cacheFolder: '/c' }),
    ).toEqual({
      ...LANE_DEFAULTS,
      isolation: 'process',
      exitTimeoutMs: 0,
      cache: 'off',
      cacheFolder: '/c',
    });
  });

  it.each([
    [{ isolation: 'vm' }, 'isolation'],
    [{ exitTimeoutMs: -1 }, 'exitTimeoutMs'],
    [{ exitTimeoutMs: 3_600_001 }, 'exitTimeoutMs'],
    [{ cudaLibraries: '' }, 'cudaLibraries'],
    [{ cache: true }, 'cache'],
    [{ cacheFolder: 1 }, 'cacheFolder'],
    [{ cacheBytes: 0.5 }, 'cacheBytes'],
  ])('refuses %j', (given, option) => {
    expect(() => readLaneOptions(given as object)).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', details: expect.objectContaining({ option }) }),
    );
  });
});
