/** The devices of this machine, and those that a simulated nvidia-smi lists. */
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { readDevice } from '../../../../src/run/runtime/lanes/device.js';
import {
  cudaDevices,
  describeGpus,
  devicesLike,
  listDevices,
} from '../../../../src/run/runtime/devices/device-list.js';
import { readDriverFiles } from '../../../../src/run/runtime/devices/driver-files.js';
import type { Gpu } from '../../../../src/run/runtime/devices/gpu.js';
import { parseGpus, parseSlices } from '../../../../src/run/runtime/devices/nvidia-smi.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { answering, DIVIDED, LIST, playNvidiaSmi, SLICES, UUIDS } from '../../../support/nvidia.js';

const scratch = scratchFolder();
afterEach(() => void vi.unstubAllEnvs());

/** Lets the process find a simulated nvidia-smi. */
function play(name: string, script: string): void {
  vi.stubEnv('PATH', playNvidiaSmi(join(scratch, name), script));
  vi.stubEnv('CUDA_VISIBLE_DEVICES', undefined);
}

describe('describeGpus', () => {
  const slices = parseSlices(LIST);
  const gpus = parseGpus(DIVIDED).map((gpu): Gpu =>
    Object.assign(gpu, { migSlices: slices.get(gpu.uuid ?? '') ?? [] }),
  );

  it('numbers the visible GPUs', () => {
    const report = { gpus, source: 'nvidia-smi', problem: null } as const;
    expect(describeGpus(report, '2,0')).toMatchObject([
      { device: 'cuda:0', index: 0, uuid: UUIDS[2] },
      { device: 'cuda:1', index: 1, uuid: UUIDS[0] },
    ]);
    expect(describeGpus(report, SLICES[1])).toMatchObject([
      { device: { type: 'cuda', id: SLICES[1] }, migSlices: [{ profile: '1g.5gb' }] },
    ]);
  });

  it('names devices by UUID if one is divided, each slice separately', () => {
    const listed = describeGpus({ gpus, source: 'nvidia-smi', problem: null }, undefined).map((gpu) =>
      Object.assign(gpu, { isUsable: true }),
    );
    expect(cudaDevices(listed)).toEqual(
      [UUIDS[0], SLICES[0], SLICES[1], UUIDS[2]].map((id) => ({ type: 'cuda', id })),
    );
    expect(cudaDevices(listed.filter(({ index }) => index !== 1))).toEqual(['cuda:0', 'cuda:2']);
  });

  it('says that a GPU in MIG mode without slices cannot be used', () => {
    const [, gpu] = describeGpus(
      { gpus: parseGpus(DIVIDED), source: 'nvidia-smi', problem: null },
      undefined,
    );
    expect(gpu).toMatchObject({ isUsable: false, reason: expect.stringContaining('MIG') as string });
  });
});

describe('listDevices', () => {
  it('lists the CPU, the GPUs that a simulated nvidia-smi lists, and WebGPU', async () => {
    play('whole', answering(DIVIDED));
    const devices = await listDevices();
    expect(devices.map(({ type }) => type)).toEqual(['cpu', 'cuda', 'cuda', 'cuda', 'webgpu']);
    const [cpu, , divided, , webgpu] = devices;
    expect(cpu).toMatchObject({ device: 'cpu', isUsable: true, reason: null });
    expect(cpu!.type === 'cpu' && cpu!.cores > 0 && cpu!.memoryBytes > 2 ** 20).toBe(true);
    expect(divided).toMatchObject({ index: 1, migSlices: [{ uuid: SLICES[0] }, { uuid: SLICES[1] }] });
    expect(webgpu).toMatchObject({ isUsable: null });
    vi.stubEnv('CUDA_VISIBLE_DEVICES', '');
    expect((await listDevices()).map(({ type }) => type)).toEqual(['cpu', 'webgpu']);
  });
});

describe('devices for a data-parallel model', () => {
  // Where there is a driver, its files list them.
  it.skipIf(readDriverFiles().length > 0)('are the extractor’s own where none can be listed', async () => {
    play('none', 'exit 9');
    expect(await devicesLike('cpu')).toEqual(['cpu']);
    expect(await devicesLike('cpu:1')).toEqual(['cpu:1']);
    expect(await devicesLike('cuda:1')).toEqual(['cuda:1']);
    const [named] = await devicesLike(`cuda:${UUIDS[0]}`);
    expect(readDevice('device', named)).toMatchObject({ type: 'cuda', uuid: UUIDS[0] });
  });
});
