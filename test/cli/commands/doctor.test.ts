/** The doctor: what it finds here, what it finds beside a played GPU, and how it ends. */
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { formatDiagnosis } from '../../../src/cli/commands/doctor.js';
import type { Diagnosis } from '../../../src/run/runtime/devices/diagnose.js';
import { whyNoProvider } from '../../../src/run/runtime/devices/provider-library.js';
import { scratchFolder } from '../../support/fixtures.js';
import { answering, DIVIDED, playNvidiaSmi, QUERY, SLICES, UUIDS } from '../../support/nvidia.js';
import { runTapir } from '../../support/run.js';

const scratch = scratchFolder();
const hasProvider = whyNoProvider() === undefined;

async function examine(
  env: NodeJS.ProcessEnv = {},
  flags: readonly string[] = [],
): Promise<{ code: number | null; stderr: string; diagnosis: Diagnosis }> {
  const { code, stdout, stderr } = await runTapir(['doctor', '--json', ...flags], { env });
  return { code, stderr, diagnosis: JSON.parse(stdout) as Diagnosis };
}

describe('tapir doctor', () => {
  it('says that the CPU works, and a line for each thing', async () => {
    const { code, stdout, stderr } = await runTapir(['doctor']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(
      new RegExp(`^✓ node +${process.version} \\(ABI ${process.versions.modules}\\)`, 'm'),
    );
    expect(stdout).toMatch(/^✓ onnxruntime +\d+\.\d+\.\d+, compiled for cpu/m);
    expect(stdout).toMatch(/^✓ telemetry +off/m);
    expect(stdout).toMatch(/^✓ cpu +works \(two small models ran in \d+ ms\)$/m);
    expect(stdout).toMatch(/^[✓·] webgpu /m);
    expect(stdout).not.toMatch(/^✗(?! cuda:)/m);
  });

  it.skipIf(hasProvider)('names what is missing for a GPU that is there, and how to get it', async () => {
    const path = playNvidiaSmi(join(scratch, 'smi'), answering(QUERY));
    const { code, diagnosis } = await examine({ PATH: path, CUDA_VISIBLE_DEVICES: '2,0' });
    expect(code).toBe(0);
    expect(diagnosis.cuda).toMatchObject({
      driver: { driver: '580.65.06', cuda: '13.0' },
      gpus: [
        { device: 'cuda:0', uuid: UUIDS[2] },
        { device: 'cuda:1', uuid: UUIDS[0] },
      ],
      hidden: 1,
      source: 'nvidia-smi',
      problemOfList: null,
    });
    expect(diagnosis.environment).toMatchObject({ CUDA_VISIBLE_DEVICES: '2,0', CUDA_DEVICE_ORDER: null });
    expect(diagnosis.devices.map(({ device, isWorking }) => [device, isWorking]).slice(0, 3)).toEqual([
      ['cpu', true],
      ['cuda:0', false],
      ['cuda:1', false],
    ]);
    const text = formatDiagnosis(diagnosis);
    expect(text).toMatch(/^✓ NVIDIA driver +580\.65\.06, runs CUDA up to 13\.0$/m);
    expect(text).toMatch(
      /^✓ GPU 1 +NVIDIA H100 80GB HBM3, 85\.5 GB, 84\.9 GB free, compute capability 9\.0/m,
    );
    expect(text).toMatch(/^· visible GPUs +CUDA_VISIBLE_DEVICES=2,0 hides 1$/m);
    if (process.platform === 'linux')
      expect(text).toMatch(/next:\n(?:.*\n)?.*: tapir engines install cuda$/m);
  });

  it('tries each slice of a divided GPU', async () => {
    const path = playNvidiaSmi(join(scratch, 'mig'), answering(DIVIDED));
    const { diagnosis } = await examine({ PATH: path });
    const ids = diagnosis.devices.map(({ device }) => (typeof device === 'string' ? device : device.id));
    expect(ids).toEqual(['cpu', UUIDS[0], ...SLICES, UUIDS[2], 'webgpu']);
    expect(formatDiagnosis(diagnosis)).toContain(`slice`);
  });

  it('says what does not run on a device that works, and which libraries to install', async () => {
    const path = playNvidiaSmi(join(scratch, 'weak'), answering(QUERY));
    const { diagnosis } = await examine({ PATH: path, CUDA_VISIBLE_DEVICES: '0' });
    const [cpu, cuda] = diagnosis.devices;
    const weak = { ...cpu!, device: 'cuda:0', weakness: 'convolutions do not run: no cuDNN' } as const;
    const text = formatDiagnosis({ ...diagnosis, devices: [cpu!, weak] });
    expect(text).toMatch(/^✗ cuda:0 +works, but convolutions do not run: no cuDNN$/m);
    expect(text).toMatch(/next:\n +install cuDNN/);
    const lacking = { ...cuda!, isWorking: false, missingLibraries: ['libcublas.so.14'] };
    const found = { ...diagnosis.cuda, problem: null, deviceFiles: [] };
    expect(formatDiagnosis({ ...diagnosis, cuda: found, devices: [cpu!, lacking] })).toMatch(
      /install the libraries libcublas\.so\.14.*, or name their folder: tapir doctor --cuda-libs DIR/,
    );
  });

  it('tells a missing driver from missing libraries', async () => {
    const path = playNvidiaSmi(join(scratch, 'driver'), answering(QUERY));
    const { diagnosis } = await examine({ PATH: path, CUDA_VISIBLE_DEVICES: '0' });
    const lacking = (missingLibraries: readonly string[]): string =>
      formatDiagnosis({
        ...diagnosis,
        cuda: { ...diagnosis.cuda, deviceFiles: [], problem: null },
        devices: [{ ...diagnosis.devices[0]!, device: 'cuda:0', isWorking: false, missingLibraries }],
      }).split('next:\n')[1]!;
    expect(lacking(['libcuda.so.1'])).toMatch(/install the NVIDIA driver, .*--gpus all/);
    expect(lacking(['libcuda.so.1'])).not.toContain('install the libraries');
    expect(lacking(['libcurand.so.10'])).toContain('install the libraries libcurand.so.10');
    expect(lacking(['libcurand.so.10'])).not.toContain('driver');
  });

  it('refuses a folder of libraries that is missing', async () => {
    const { code, stderr } = await runTapir(['doctor', '--cuda-libs', join(scratch, 'none')]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/--cuda-libs must be a folder that exists/);
  });

  it('kills what does not answer in time, and ends with 3 if nothing works', async () => {
    const { code, diagnosis } = await examine({}, ['--timeout', '0']);
    expect(code).toBe(3);
    expect(diagnosis.devices.length).toBeGreaterThan(2);
    for (const device of diagnosis.devices)
      expect(device).toMatchObject({ isWorking: false, reason: 'no answer within 0 s' });
    expect(formatDiagnosis(diagnosis)).toMatch(/^✗ cpu +no answer/m);
  });
});
