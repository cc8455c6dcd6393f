/** Which GPUs are there, which of them are visible, and what becomes of a tool that fails. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { memoryFigures, warnOfMemory } from '../../../src/runtime/devices/balance.js';
import { readDevice, readDevices } from '../../../src/runtime/device.js';
import {
  cudaDevices,
  describeGpus,
  devicesLike,
  listDevices,
} from '../../../src/runtime/devices/device-list.js';
import { hasDriver, listDeviceFiles, readDriverFiles } from '../../../src/runtime/devices/driver-files.js';
import type { Gpu } from '../../../src/runtime/devices/gpu.js';
import {
  listGpus,
  parseDriverVersions,
  parseGpus,
  parseSlices,
} from '../../../src/runtime/devices/nvidia-smi.js';
import { selectVisible } from '../../../src/runtime/devices/visible-devices.js';
import { scratchFolder } from '../../support/fixtures.js';
import { answering, DIVIDED, HEAD, LIST, playNvidiaSmi, QUERY, SLICES, UUIDS } from '../../support/nvidia.js';

const scratch = scratchFolder();
afterEach(() => vi.unstubAllEnvs());

/** Lets the process find a played nvidia-smi. */
function play(name: string, script: string): void {
  vi.stubEnv('PATH', playNvidiaSmi(join(scratch, name), script));
  vi.stubEnv('CUDA_VISIBLE_DEVICES', undefined);
}

describe('what nvidia-smi prints', () => {
  it('is read into GPUs by bus id, with what it does not know', () => {
    const gpus = parseGpus(QUERY);
    expect(gpus.map(({ uuid }) => uuid)).toEqual(UUIDS);
    expect(gpus[0]).toEqual({
      name: 'NVIDIA H100 80GB HBM3',
      uuid: UUIDS[0],
      pciBusId: '00000000:04:00.0',
      memoryBytes: 81559 * 2 ** 20,
      freeBytes: 81000 * 2 ** 20,
      driverVersion: '580.65.06',
      computeCapability: '9.0',
      isDivided: false,
      migSlices: [],
    });
    expect(gpus[2]).toMatchObject({ memoryBytes: null, freeBytes: null, computeCapability: '12.1' });
  });

  it('may come from an old driver, or name a GPU with commas', () => {
    const old = `${UUIDS[0]}, 0000:04:00.0, Tesla K80, 11441, 11000, 450.80.02`;
    expect(parseGpus(old)).toMatchObject([
      {
        name: 'Tesla K80',
        memoryBytes: 11441 * 2 ** 20,
        driverVersion: '450.80.02',
        computeCapability: null,
      },
    ]);
    const odd = `${UUIDS[0]}, 0000:04:00.0, A, B, 1, 1, 580.1, Disabled, 8.0`;
    expect(parseGpus(odd)).toMatchObject([{ name: 'A, B', computeCapability: '8.0' }]);
  });

  it.each([
    '',
    'No devices were found\n',
    'uuid, pci.bus_id\n',
    `${UUIDS[0]}\n`,
    `${UUIDS[0]}, 0000:04:00.0, name\n`,
    '\u0000\u0001,,,,,,,,',
    '<html>',
  ])('is no GPU: %j', (text) => expect(parseGpus(text)).toEqual([]));

  it('tells slices and versions', () => {
    expect(parseSlices(LIST)).toEqual(
      new Map([
        [
          UUIDS[1],
          [
            { profile: '3g.20gb', uuid: SLICES[0] },
            { profile: '1g.5gb', uuid: SLICES[1] },
          ],
        ],
      ]),
    );
    expect(parseSlices('  MIG 1g.5gb Device 0: (UUID: MIG-1)\nnothing')).toEqual(new Map());
    expect(parseDriverVersions(HEAD)).toEqual({ driver: '580.65.06', cuda: '13.0' });
    expect(parseDriverVersions('| KMD Version: 590.1  CUDA UMD Version: 13.1 |')).toEqual({
      driver: '590.1',
      cuda: '13.1',
    });
    expect(parseDriverVersions('no')).toEqual({ driver: null, cuda: null });
  });
});

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
    // Two GPUs begin so: it names neither.
    ['GPU-3,GPU-1,GPU-11', [2]],
    ['GPU-9', []],
    [SLICES[1], [SLICES[1]]],
    ['MIG-bbbb,MIG-aaaa,MIG-cccc', [SLICES[1], SLICES[0]]],
  ])('%j shows %j', (list, expected) => expect(seen(list)).toEqual(expected));

  it('renumbers what it leaves', () => {
    const report = { gpus, source: 'nvidia-smi', problem: null } as const;
    expect(describeGpus(report, '2,0')).toMatchObject([
      { device: 'cuda:0', index: 0, uuid: UUIDS[2] },
      { device: 'cuda:1', index: 1, uuid: UUIDS[0] },
    ]);
    expect(describeGpus(report, SLICES[1])).toMatchObject([
      { device: { type: 'cuda', id: SLICES[1] }, migSlices: [{ profile: '1g.5gb' }] },
    ]);
  });

  it('with a divided GPU gives devices by UUID, each slice one', () => {
    const listed = describeGpus({ gpus, source: 'nvidia-smi', problem: null }, undefined).map((gpu) =>
      Object.assign(gpu, { isUsable: true }),
    );
    expect(cudaDevices(listed)).toEqual(
      [UUIDS[0], SLICES[0], SLICES[1], UUIDS[2]].map((id) => ({ type: 'cuda', id })),
    );
    expect(cudaDevices(listed.filter(({ index }) => index !== 1))).toEqual(['cuda:0', 'cuda:2']);
  });

  it('a GPU that is to be divided and is not cannot be used', () => {
    const [, gpu] = describeGpus(
      { gpus: parseGpus(DIVIDED), source: 'nvidia-smi', problem: null },
      undefined,
    );
    expect(gpu).toMatchObject({ isUsable: false, reason: expect.stringContaining('MIG') as string });
  });
});

describe('listDevices', () => {
  it('lists the CPU, the GPUs that a played nvidia-smi shows, and WebGPU', async () => {
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

  it('asks an old driver again, for less', async () => {
    const old = `${UUIDS[0]}, 0000:04:00.0, Tesla K80, 11441, 11000, 450.80.02\n`;
    const refuse = `case "$1" in *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;; esac`;
    play('old', `${refuse}\n${answering(old)}`);
    expect(await listGpus()).toMatchObject({ gpus: [{ name: 'Tesla K80' }], problem: null });
  });

  it.each([
    ['fails', 'echo "NVIDIA-SMI has failed because it could not talk"; exit 9', /could not talk/],
    ['fails silently', 'exit 9', /ends with 9/],
    ['prints garbage', 'head -c 4000 /dev/urandom', /lists no GPU/],
    ['prints nothing', 'true', /prints nothing/],
    ['prints without end', 'yes nonsense', /nvidia-smi/],
    ['hangs', 'exec sleep 30', /does not answer within 0\.3 s/],
  ])('takes a tool that %s for no GPU', async (name, script, problem) => {
    play(name, script);
    const report = await listGpus(name === 'hangs' ? 300 : 10_000);
    expect(report.problem).toMatch(problem);
    expect(report.source).not.toBe('nvidia-smi');
  });

  it('takes a missing tool for no GPU', async () => {
    vi.stubEnv('PATH', join(scratch, 'nothing'));
    expect((await listGpus()).problem).toMatch(/nvidia-smi is not there/);
  });
});

describe('the driver’s files', () => {
  it('list GPUs by bus id, only those that are given to the container', () => {
    const root = join(scratch, 'root');
    const add = (busId: string, text: string): void => {
      mkdirSync(join(root, 'proc/driver/nvidia/gpus', busId), { recursive: true });
      writeFileSync(join(root, 'proc/driver/nvidia/gpus', busId, 'information'), text);
    };
    add('0000:3b:00.0', `Model: \t\t Tesla T4\nGPU UUID: \t GPU-????????-????\nDevice Minor: \t 1\n`);
    add(
      '0000:04:00.0',
      `Model: \t\t Tesla V100\nGPU UUID: \t ${UUIDS[0]}\nBus Location: \t 0000:04:00.0\nDevice Minor: \t 0\n`,
    );
    add('0000:05:00.0', `Model: \t\t Hidden\nDevice Minor: \t 5\n`);
    mkdirSync(join(root, 'dev'));
    for (const name of ['nvidia0', 'nvidia1', 'nvidia7', 'nvidiactl', 'nvidia-uvm', 'null'])
      writeFileSync(join(root, 'dev', name), '');
    expect(readDriverFiles(root).map(({ name, uuid, pciBusId }) => [name, uuid, pciBusId])).toEqual([
      ['Tesla V100', UUIDS[0], '0000:04:00.0'],
      ['Tesla T4', null, '0000:3b:00.0'],
      ['NVIDIA GPU', null, null],
    ]);
    expect(listDeviceFiles(root).map(({ problem }) => problem)).toEqual([null, null, null, null, null]);
    expect(hasDriver(root)).toBe(true);
    expect(readDriverFiles(join(scratch, 'nothing'))).toEqual([]);
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

  it('are compared by memory, once, as torch does', async () => {
    play('unequal', answering(QUERY));
    const listed = describeGpus({ gpus: parseGpus(QUERY), source: 'nvidia-smi', problem: null }, undefined);
    const devices = readDevices('devices', ['cuda:0', { type: 'cuda', id: UUIDS[1] }, 'cuda:2', 'cpu']);
    expect(memoryFigures(devices, listed)).toEqual([
      { device: 'cuda:0', value: 81559 * 2 ** 20 },
      { device: `cuda:${UUIDS[1]}`, value: 40960 * 2 ** 20 },
    ]);
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    await warnOfMemory(devices);
    await warnOfMemory(readDevices('devices', ['cuda:0', 'cpu']));
    await warnOfMemory(readDevices('devices', ['cuda:0', 'cuda:2']));
    expect(warn.mock.calls).toEqual([
      [expect.stringContaining('has 50 % of the memory of cuda:0'), { code: 'TAPIR_DEVICES_UNBALANCED' }],
    ]);
    warn.mockRestore();
  });
});
