/** Installing CUDA, which comes in several wheels, from a local index with tiny ones. The real wheels (1.4 GB) are tried by hand. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Options } from '../../../../src/base/checks.js';
import { ENGINE_PACKAGES, engineFolder, enginesFolder } from '../../../../src/base/engine-packages.js';
import { TapirError } from '../../../../src/base/errors.js';
import type { InstallOptions } from '../../../../src/learn/hub/wheels/install-engine.js';
import { findInstalledEngine, removeEngine } from '../../../../src/learn/hub/wheels/installed-engine.js';
import { failureOf } from '../../../support/failure.js';
import { sendCut, sendFile } from '../../../support/file-server.js';
import { projectPath, scratchFolder } from '../../../support/fixtures.js';
import {
  CUDA_PLACES,
  installEngine,
  makeCudaWheels,
  sha256Of,
  startIndex,
  tableOf,
} from '../../../support/wheels.js';

const scratch = scratchFolder();
const files = makeCudaWheels();
const wheels = Object.keys(files);
const isOffered = process.platform === 'linux' && process.arch === 'x64';
let count = 0;

beforeEach(() => {
  const home = join(scratch, String(count++));
  for (const name of ['HOME', 'XDG_CACHE_HOME', 'LOCALAPPDATA']) vi.stubEnv(name, home);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

const install = (
  options: Options<InstallOptions>,
  table = tableOf(files),
): ReturnType<typeof installEngine> =>
  installEngine('cuda', { retryDelayMs: 1, stallMs: 5000, ...options }, table);
const left = (): string[] => (existsSync(enginesFolder()) ? readdirSync(enginesFolder()).toSorted() : []);

it('pins the provider to the version of onnxruntime-node', () => {
  const { dependencies } = JSON.parse(readFileSync(projectPath('package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>;
  };
  const { version, packages } = ENGINE_PACKAGES.cuda;
  expect(version).toBe(dependencies['onnxruntime-node']);
  expect(packages.find(({ project }) => project === 'onnxruntime-gpu')?.version).toBe(version);
});

it.skipIf(isOffered)('is refused on other systems before anything is asked', async () => {
  const error = await failureOf(install({ indexUrl: 'http://127.0.0.1:1/simple' }), TapirError);
  expect(error).toMatchObject({ code: 'OPTION_INVALID', details: { option: 'name' } });
  expect(error.message).toMatch(/"cuda" is for linux x64 \(glibc 2\.28\)/);
});

describe.runIf(isOffered)('installEngine cuda', () => {
  it('unpacks the libraries of all wheels side by side, each with its licence', async () => {
    const { url } = await startIndex({ files });
    const engine = await install({ indexUrl: `${url}/simple` });
    const folder = engineFolder('cuda');
    expect(engine).toMatchObject({ name: 'cuda', version: '1.30.0', folder });
    expect(engine.wheels).toEqual(
      wheels.map((filename) => ({ filename, sha256: sha256Of(files[filename]!) })),
    );
    const written = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.\w+$|LICENSE$/.test(name),
    );
    expect(written.filter((name) => !/^licenses\/[\w-]+$/.test(name)).toSorted()).toEqual(
      [...CUDA_PLACES, 'engine.json'].toSorted(),
    );
    expect(left()).toEqual(['cuda-1.30.0']);
  });

  it('goes on with the wheel at which the connection broke, and unpacks none before all are there', async () => {
    let sent = 0;
    const { url, requests } = await startIndex({
      files,
      send: (request, response, content) =>
        ++sent === 3 ? sendCut(request, response, content, 100) : sendFile(request, response, content),
    });
    const indexUrl = `${url}/simple`;
    const error = await failureOf(install({ indexUrl, attempts: 1 }), TapirError);
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(left()).toEqual(
      [...wheels.slice(0, 2), `${wheels[2]!}.partial`, `${wheels[2]!}.partial.json`].toSorted(),
    );
    await install({ indexUrl });
    const asked = requests.filter(({ url: path }) => path!.startsWith('/files/'));
    expect(asked.map(({ url: path }) => decodeURIComponent(path!.slice('/files/'.length)))).toEqual([
      ...wheels.slice(0, 3),
      ...wheels.slice(2),
    ]);
    expect(asked[3]!.headers.range).toBe('bytes=100-');
    expect(left()).toEqual(['cuda-1.30.0']);
  });

  it('installs nothing if the index lacks one of the packages, and names it', async () => {
    const { [wheels.at(-1)!]: _without, ...others } = files;
    const { url, requests } = await startIndex({ files: others });
    const error = await failureOf(install({ indexUrl: `${url}/simple` }), TapirError);
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(error.message).toMatch(/nvidia-cudnn-cu13\/.* 404/);
    expect(requests.some(({ url: path }) => path!.startsWith('/files/'))).toBe(false);
    expect(left()).toEqual([]);
  });

  it('installs downloaded wheels, in any order and with others among them, and names one that is not there', async () => {
    const folder = join(scratch, 'wheels');
    mkdirSync(folder, { recursive: true });
    const paths = wheels.map((name) => join(folder, name)).toReversed();
    for (const name of wheels) writeFileSync(join(folder, name), files[name]!);
    const lacking = await failureOf(install({ wheel: paths.slice(1) }), TapirError);
    expect(lacking).toMatchObject({ code: 'OPTION_INVALID', details: { option: 'wheel' } });
    expect(lacking.message).toMatch(
      /a wheel of nvidia-cudnn-cu13 9\.19\.0\.56 for this system, .*nvidia_cudnn_cu13-9\.19/,
    );
    await install({ wheel: [join(folder, 'other-1.0-py3-none-any.whl'), ...paths] });
    expect(readdirSync(folder).length).toBe(wheels.length);
    expect(left()).toEqual(['cuda-1.30.0']);
  });

  it('says which library a wheel lacks', async () => {
    const other = makeCudaWheels();
    const [curand, cufft] = ['nvidia_curand', 'nvidia_cufft'].map((project) =>
      wheels.find((name) => name.startsWith(project)),
    );
    const wrong = { ...other, [curand!]: other[cufft!]! };
    const { url } = await startIndex({ files: wrong });
    const error = await failureOf(install({ indexUrl: `${url}/simple` }, tableOf(wrong)), TapirError);
    expect(error).toMatchObject({ code: 'PACKAGE_INVALID' });
    expect(error.message).toMatch(/nvidia_curand.*it has no library libcurand/);
    // All but the wrong one remain for the next call.
    expect(left()).toEqual(wheels.filter((name) => name !== curand).toSorted());
    expect((await removeEngine('cuda')).length).toBe(wheels.length - 1);
    expect(left()).toEqual([]);
  });

  it('installs again after a release with other versions of CUDA', async () => {
    const { url } = await startIndex({ files });
    const { folder } = await install({ indexUrl: `${url}/simple` });
    const record = join(folder, 'engine.json');
    writeFileSync(record, readFileSync(record, 'utf8').replace('curand-10.4.0.35', 'curand-10.4.0.1'));
    expect(await findInstalledEngine('cuda')).toBeNull();
    await install({ indexUrl: `${url}/simple` });
    expect(await findInstalledEngine('cuda')).not.toBeNull();
  });
});
