/** CUDA_VISIBLE_DEVICES, read as CUDA reads it. */
import { describe, expect, it } from 'vitest';
import type { Gpu } from '../../../../src/run/runtime/devices/gpu.js';
import { parseGpus, parseSlices } from '../../../../src/run/runtime/devices/nvidia-smi.js';
import { selectVisible } from '../../../../src/run/runtime/devices/device-list.js';
import { DIVIDED, LIST, SLICES, UUIDS } from '../../../support/nvidia.js';

describe('CUDA_VISIBLE_DEVICES', () => {
  const slices = parseSlices(LIST);
  const gpus = parseGpus(DIVIDED).map((gpu): Gpu =>
    Object.assign(gpu, { migSlices: slices.get(gpu.uuid ?? '') ?? [] }),
  );
  const seen = (list?: string): (number | string)[] =>
    selectVisible(gpus, list).map(({ gpu, slice }) => slice?.uuid ?? gpus.indexOf(gpu));

  it.each([
    [undefined, [0, 1, 2]],
    ['', []],
    [' ', []],
    ['2,0', [2, 0]],
    [' 1 , 2 ', [1, 2]],
    ['0,7,1', [0]],
    ['-1,0', []],
    ['0,-1,1', [0]],
    ['0,x,1', [0]],
    ['NoDevFiles', []],
    ['1gpu,2x', [1, 2]],
    ['1,1', []],
    ['0,1,0', []],
    [UUIDS[2], [2]],
    ['GPU-3,GPU-11', [2, 0]],
    // The beginning matches two GPUs, so it names neither.
    ['GPU-3,GPU-1,GPU-11', [2]],
    ['GPU-9', []],
    [SLICES[1], [SLICES[1]]],
    ['MIG-bbbb,MIG-aaaa,MIG-cccc', [SLICES[1], SLICES[0]]],
  ])('%j shows %j', (list, expected) => expect(seen(list)).toEqual(expected));
});
