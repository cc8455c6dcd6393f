/** The WebAssembly instance: its memory, and processes that have no SIMD. */
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createResample, resample } from '../../../../src/photos/images/resample/resample.js';
import {
  sharedSimdModule,
  startSimdModule,
  type WebAssemblyApi,
} from '../../../../src/photos/images/simd/simd-module.js';
import { BILINEAR } from '../../../support/samplings.js';

const { WebAssembly: api } = globalThis as unknown as { WebAssembly: WebAssemblyApi };
const PAGE = 65_536;

describe('the memory of an instance', () => {
  it('grows to what is asked for, up to 16 MiB, and never shrinks', () => {
    const simd = startSimdModule()!;
    expect(simd.memoryBytes).toBe(PAGE);
    expect(simd.reserve(1)).toHaveLength(PAGE);
    expect(simd.reserve(PAGE + 1)).toHaveLength(2 * PAGE);
    expect(simd.reserve(256 * PAGE + 1)).toBeNull();
    expect(simd.memoryBytes).toBe(2 * PAGE);
    expect(simd.reserve(256 * PAGE)).toHaveLength(256 * PAGE);
    expect(simd.reserve(5)).toHaveLength(256 * PAGE);
  });

  it('is one per thread', () => {
    expect(sharedSimdModule()).toBe(sharedSimdModule());
    expect(startSimdModule()).not.toBe(sharedSimdModule());
  });

  it('does not grow where the process has no address space: null, and the old memory still works', () => {
    const full = startSimdModule({
      ...api,
      validate: api.validate,
      Module: api.Module,
      Instance: class {
        readonly exports: Record<string, unknown>;

        constructor(module: object) {
          const { memory, ...calls } = new api.Instance(module).exports as {
            memory: { buffer: ArrayBuffer };
          };
          const grow = (): never => {
            throw new RangeError('WebAssembly.Memory.grow(): Unable to grow instance memory');
          };
          this.exports = { ...calls, memory: { buffer: memory.buffer, grow } };
        }
      },
    })!;
    expect(full.reserve(2 * PAGE)).toBeNull();
    expect(full.reserve(PAGE)).toHaveLength(PAGE);
  });
});

describe('without WebAssembly SIMD', () => {
  const data = Uint8Array.from({ length: 50 * 40 * 3 }, (_, i) => (i * 197) % 251);
  const image = { width: 50, height: 40, data };
  const size = { width: 20, height: 21 };
  const region = { left: 0, top: 0, ...size };
  afterEach(() => vi.unstubAllGlobals());

  it.each([
    ['the module is not valid', { ...api, validate: () => false }],
    [
      'there is no address space for its memory',
      { ...api, validate: () => true, Module: Object, Instance: NoMemory },
    ],
  ])('JavaScript is taken: %s', (_why, other) => {
    const start = vi.fn(() => startSimdModule(other));
    const expected = resample(image, size, region, BILINEAR);
    expect(createResample(start)(image, size, region, BILINEAR)).toEqual(expected);
    expect(start).toHaveReturnedWith(null);
  });

  it('JavaScript is taken: there is no WebAssembly (node --jitless)', () => {
    vi.stubGlobal('WebAssembly', undefined);
    expect(startSimdModule()).toBeNull();
  });

  it('errors that are not about memory are told', () => {
    const broken = { ...api, validate: () => true, Module: Broken };
    expect(() => startSimdModule(broken)).toThrow('broken');
  });
});

class NoMemory {
  readonly exports: Record<string, unknown> = {};

  constructor() {
    throw new RangeError(
      'WebAssembly.Instance(): Out of memory: Cannot allocate Wasm memory for new instance',
    );
  }
}

class Broken {
  constructor() {
    throw new TypeError('broken');
  }
}
