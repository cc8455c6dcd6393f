/** The output of nvidia-smi, and what happens when the tool fails. */
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  listGpus,
  parseDriverVersions,
  parseGpus,
  parseSlices,
} from '../../../../src/run/runtime/devices/nvidia-smi.js';
import { scratchFolder } from '../../../support/fixtures.js';
import { answering, HEAD, LIST, playNvidiaSmi, QUERY, SLICES, UUIDS } from '../../../support/nvidia.js';

const scratch = scratchFolder();
afterEach(() => void vi.unstubAllEnvs());

/** Lets the process find a simulated nvidia-smi. */
function play(name: string, script: string): void {
  vi.stubEnv('PATH', playNvidiaSmi(join(scratch, name), script));
  vi.stubEnv('CUDA_VISIBLE_DEVICES', undefined);
}

describe('the output of nvidia-smi', () => {
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

describe('listGpus', () => {
  it('asks an old driver again, for less', async () => {
    const old = `${UUIDS[0]}, 0000:04:00.0, Tesla K80, 11441, 11000, 450.80.02\n`;
    const refuse = `case "$1" in *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;; esac`;
    play('old', `${refuse}\n${answering(old)}`);
    expect(await listGpus()).toMatchObject({ gpus: [{ name: 'Tesla K80' }], problem: null });
  });

  it.each([
    ['fails', 'echo "NVIDIA-SMI has failed because it could not talk"; exit 9', /could not talk/],
    ['fails silently', 'exit 9', /failed: exit code 9/],
    ['prints garbage', 'head -c 4000 /dev/urandom', /lists no GPU/],
    ['prints nothing', 'true', /printed nothing/],
    ['prints without end', 'yes nonsense', /nvidia-smi/],
    ['hangs', 'exec sleep 30', /did not answer within 0\.3 s/],
  ])('reports a tool that %s', async (name, script, problem) => {
    play(name, script);
    const report = await listGpus(name === 'hangs' ? 300 : 10_000);
    expect(report.problem).toMatch(problem);
    expect(report.source).not.toBe('nvidia-smi');
  });

  it('reports a missing tool', async () => {
    vi.stubEnv('PATH', join(scratch, 'nothing'));
    expect((await listGpus()).problem).toMatch(/nvidia-smi was not found/);
  });
});
