/** CUDA that `tapir engines install cuda` has installed: found, offered to onnxruntime, and refused if it is damaged or of another version. */
import { readdirSync, readFileSync, readlinkSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { enginesFolder } from '../../../../src/base/engine-packages.js';
import { readDevice } from '../../../../src/run/runtime/lanes/device.js';
import { prepareCuda } from '../../../../src/run/runtime/devices/cuda-setup.js';
import { hasDriver } from '../../../../src/run/runtime/devices/driver-files.js';
import {
  CAN_INSTALL_CUDA,
  installedCuda,
  linkInstalledProvider,
  offerInstalledProvider,
  whyNotInstalledCuda,
  whyNotOffered,
} from '../../../../src/run/runtime/devices/installed-cuda.js';
import { findProvider, whyNoProvider } from '../../../../src/run/runtime/devices/provider-library.js';
import { playCuda } from '../../../support/cuda.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import { runNode, runTapir } from '../../../support/run.js';

const scratch = scratchFolder();
let count = 0;
let home = '';
beforeEach(() => {
  home = join(scratch, String(count++));
  vi.stubEnv('XDG_CACHE_HOME', home);
});
afterEach(() => void vi.unstubAllEnvs());

/** Opens a session in a thread, and prints by which path onnxruntime's library was loaded. */
const OPEN_AND_LIST = `
  const { createFeatureExtractor } = await import('onnx-tapir');
  const model = ${JSON.stringify(projectPath('test/fixtures/graphs/generated/extract/metadata.onnx'))};
  await (await createFeatureExtractor(model, ['y'])).close();
  const { sharedObjects } = process.report.getReport();
  console.log(sharedObjects.filter((path) => path.endsWith('libonnxruntime.so.1')).join(' '));`;

const cuda = readDevice('device', 'cuda');
/** The reason why a session on CUDA cannot be opened. */
async function refusal(): Promise<string> {
  const error: unknown = await prepareCuda(cuda, undefined).catch((reason: unknown) => reason);
  return (error as { readonly details: { readonly reason: string } }).details.reason;
}

describe.runIf(CAN_INSTALL_CUDA)('installed CUDA', () => {
  it('is found once it is installed, and comes before what lies beside onnxruntime-node', () => {
    expect(installedCuda()).toBeUndefined();
    expect(whyNotInstalledCuda()).toBeUndefined();
    const folder = playCuda(enginesFolder());
    expect(installedCuda()).toBe(join(folder, 'libs'));
    expect(whyNotInstalledCuda()).toBeUndefined();
    expect(findProvider()).toMatchObject({ folder: join(folder, 'libs'), isInstalled: true });
    expect(whyNoProvider()).toBeUndefined();
  });

  it('has onnxruntime and its provider side by side in a folder of links, without a file beside onnxruntime-node', () => {
    expect(linkInstalledProvider()).toBeUndefined();
    const folder = playCuda(enginesFolder());
    expect(linkInstalledProvider()).toBeUndefined();
    expect(linkInstalledProvider()).toBeUndefined();
    const [id] = readdirSync(join(folder, 'runtimes'));
    const links = join(folder, 'runtimes', id!);
    expect(readdirSync(links).toSorted()).toEqual([
      'libonnxruntime.so.1',
      'libonnxruntime_providers_cuda.so',
      'libonnxruntime_providers_shared.so',
    ]);
    expect(readlinkSync(join(links, 'libonnxruntime.so.1'))).toMatch(
      /onnxruntime-node\/bin\/napi-v6\/linux\/x64\/libonnxruntime\.so\.1$/,
    );
    const provider = 'libonnxruntime_providers_cuda.so';
    expect(readFileSync(join(links, provider))).toEqual(readFileSync(join(folder, 'libs', provider)));
    rmSync(join(folder, 'runtimes'), { recursive: true });
    writeFileSync(join(folder, 'runtimes'), 'a file');
    expect(offerInstalledProvider()).toMatch(/its libraries cannot be linked: .*EEXIST|ENOTDIR/);
  });

  it('is where onnxruntime looks for its provider, if a session of tapir loads it', async () => {
    const folder = playCuda(enginesFolder());
    const { stdout } = await runNode(['--input-type=module', '-e', OPEN_AND_LIST]);
    const [id] = readdirSync(join(folder, 'runtimes'));
    expect(stdout.trim()).toBe(join(folder, 'runtimes', id!, 'libonnxruntime.so.1'));
  });

  it('is not where onnxruntime looks, if it was loaded before: says so, and what to do', async () => {
    const { stdout } = await runNode([
      '--input-type=module',
      '-e',
      `await import('onnxruntime-node'); ${OPEN_AND_LIST}`,
    ]);
    expect(stdout.trim()).toMatch(/node_modules\/onnxruntime-node\/bin\/.*libonnxruntime\.so\.1$/);
    expect(whyNotOffered()).toBeUndefined();
    const folder = playCuda(enginesFolder());
    await import('onnxruntime-node');
    expect(whyNotOffered()).toMatch(
      new RegExp(`was loaded in this process before .* and not in ${folder}/libs; .*isolation: 'process'`),
    );
  });

  it('is what the doctor reports, which still finds a CPU that works', async () => {
    const folder = playCuda(enginesFolder());
    const { stdout } = await runTapir(['doctor']);
    expect(stdout).toMatch(/^✓ cpu /m);
    expect(stdout).toMatch(/^✓ CUDA libraries /m);
    expect(stdout).toContain(`${folder}/libs\n`);
    rmSync(join(folder, 'libs/libcurand.so.10'));
    const damaged = await runTapir(['doctor']);
    expect(damaged.stdout).toMatch(/^✗ CUDA libraries +libs\/libcurand\.so\.10 in .* is missing or damaged/m);
  });

  it('names the driver alone, if all libraries are there', async () => {
    if (hasDriver()) return;
    playCuda(enginesFolder());
    expect(await refusal()).toMatch(/^no NVIDIA driver is visible here .*--gpus all\)$/);
  });

  it.each([
    ['libcurand.so.10', () => undefined],
    ['libcudnn_ops.so.9', () => undefined],
    ['libcublas.so.13', (path: string) => writeFileSync(path, 'short')],
  ])('names a library that is missing or damaged, and the command: %s', async (name, damage) => {
    const folder = playCuda(enginesFolder());
    rmSync(join(folder, 'libs', name));
    damage(join(folder, 'libs', name));
    const reason = await refusal();
    expect(reason).toContain(
      `libs/${name} in ${folder} is missing or damaged; install again with "tapir engines install cuda"`,
    );
    expect(reason.split('. Besides, ').at(-1)).toBe(whyNoProvider());
  });

  it('says for which onnxruntime libraries of another version are', async () => {
    renameSync(playCuda(enginesFolder()), join(enginesFolder(), 'cuda-1.29.0'));
    expect(installedCuda()).toBeUndefined();
    expect(await refusal()).toContain(
      'the installed CUDA libraries are for onnxruntime 1.29.0, and onnxruntime-node is 1.30.0; install those for it with "tapir engines install cuda"',
    );
  });
});
