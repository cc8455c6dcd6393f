/** Installing an engine from a local index: what is written, what is refused, and what remains after a failure. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Options } from '../../../../src/base/checks.js';
import { engineFolder } from '../../../../src/base/engine-packages.js';
import { TapirError } from '../../../../src/base/errors.js';
import type { InstallOptions } from '../../../../src/learn/hub/wheels/install-engine.js';
import { findInstalledEngine, removeEngine } from '../../../../src/learn/hub/wheels/installed-engine.js';
import { failureOf } from '../../../support/failure.js';
import { sendCut, sendFile } from '../../../support/file-server.js';
import { scratchFolder } from '../../../support/fixtures.js';
import {
  installEngine,
  makeWheel,
  NEEDED,
  neededSizes,
  sha256Of,
  startIndex,
  tableOf,
  wheelNamed,
} from '../../../support/wheels.js';

const scratch = scratchFolder();
const bytes = makeWheel();
const files = { [wheelNamed()]: bytes };
let count = 0;
let engines = '';

beforeEach(() => {
  const home = join(scratch, String(count++));
  for (const name of ['HOME', 'XDG_CACHE_HOME', 'LOCALAPPDATA']) vi.stubEnv(name, home);
  for (const name of Object.keys(process.env).filter((key) => key.startsWith('PIP_')))
    vi.stubEnv(name, undefined);
  engines = join(engineFolder('openvino'), '..');
});
afterEach(() => {
  vi.unstubAllEnvs();
});

const install = (
  options: Options<InstallOptions>,
  table = tableOf(files),
): ReturnType<typeof installEngine> =>
  installEngine('openvino', { retryDelayMs: 1, stallMs: 5000, ...options }, table);
const refused = (options: Options<InstallOptions>, table = tableOf(files)): Promise<TapirError> =>
  failureOf(install(options, table), TapirError);
/** What lies in the folder of all engines. */
const left = (): string[] => (existsSync(engines) ? readdirSync(engines).toSorted() : []);

describe('installEngine', () => {
  it('installs from an index, once', async () => {
    const { url, requests } = await startIndex({ files });
    const seen: number[] = [];
    const engine = await install({ indexUrl: `${url}/simple`, onProgress: (now) => seen.push(now.done) });
    const folder = engineFolder('openvino');
    expect(engine).toEqual({
      name: 'openvino',
      version: '2026.4.1',
      folder,
      libraries: join(folder, 'libs'),
      sizeBytes: Object.values(neededSizes()).reduce((sum, size) => sum + size, 0),
      wheels: [{ filename: wheelNamed(), sha256: sha256Of(bytes) }],
    });
    expect(seen.at(-1)).toBe(bytes.length);
    for (const place of Object.values(NEEDED)) expect(existsSync(join(folder, place)), place).toBe(true);
    expect(JSON.parse(readFileSync(join(folder, 'engine.json'), 'utf8'))).toEqual({
      wheels: [{ filename: wheelNamed(), sha256: sha256Of(bytes) }],
      sizes: neededSizes(),
    });
    expect(left()).toEqual(['openvino-2026.4.1']);
    const before = requests.length;
    expect(await install({ indexUrl: `${url}/simple` })).toEqual(engine);
    expect(requests.length).toBe(before);
  });

  it('asks the index of PIP_INDEX_URL with its user and password', async () => {
    const { url, requests } = await startIndex({ files, login: 'me:hunter2' });
    vi.stubEnv('PIP_INDEX_URL', `${url.replace('//', '//me:hunter2@')}/simple`);
    await install({});
    expect(requests.every(({ headers }) => headers.authorization?.startsWith('Basic ') === true)).toBe(true);
  });

  it('never prints a password', async () => {
    const { url } = await startIndex({ files, login: 'me:other' });
    const indexUrl = `${url.replace('//', '//me:hunter2@')}/simple`;
    const error = await refused({ indexUrl });
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(JSON.stringify([error.message, error.details, String(error.cause)])).not.toContain('hunter2');
    const cut = await startIndex({
      files,
      login: 'me:hunter2',
      send: (request, response, content) => sendCut(request, response, content, 100),
    });
    const partial = await refused({
      indexUrl: `${cut.url.replace('//', '//me:hunter2@')}/simple`,
      attempts: 1,
    });
    expect(partial).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(partial.message).not.toContain('hunter2');
    expect(left()).toEqual([`${wheelNamed()}.partial`, `${wheelNamed()}.partial.json`]);
    expect(readFileSync(join(engines, `${wheelNamed()}.partial.json`), 'utf8')).not.toContain('hunter2');
  });

  it('resumes after a cut connection, in the same call and in the next one', async () => {
    const { url, requests } = await startIndex({
      files,
      send: (request, response, content, nth) =>
        nth < 4 ? sendCut(request, response, content, nth * 500) : sendFile(request, response, content),
    });
    const indexUrl = `${url}/simple`;
    expect(await refused({ indexUrl, attempts: 2 })).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(await findInstalledEngine('openvino')).toBeNull();
    await install({ indexUrl });
    const ranges = requests
      .filter(({ url: path }) => path!.startsWith('/files/'))
      .map(({ headers }) => headers.range);
    expect(ranges).toEqual([undefined, 'bytes=500-', 'bytes=1000-', 'bytes=1500-']);
    expect(left()).toEqual(['openvino-2026.4.1']);
  });

  it('refuses a wheel with another checksum, and deletes it if it has downloaded it', async () => {
    const other = makeWheel([{ name: 'openvino/libs/libz.so', bytes }]);
    const details = { expected: sha256Of(bytes), actual: sha256Of(other) };
    const { url } = await startIndex({ files: { [wheelNamed()]: other } });
    const error = await refused({ indexUrl: `${url}/simple` });
    expect(error).toMatchObject({ code: 'CHECKSUM_MISMATCH', details });
    expect(left()).toEqual([]);
    const wheel = join(scratch, 'other', wheelNamed());
    mkdirSync(join(scratch, 'other'));
    writeFileSync(wheel, other);
    expect(await refused({ wheel })).toMatchObject({ code: 'CHECKSUM_MISMATCH', details });
    expect([existsSync(wheel), left()]).toEqual([true, []]);
  });

  it.each([
    ['for other platforms', { [wheelNamed('cp314', 'win_arm64')]: bytes }],
    ['of another version', { [wheelNamed().replace('2026.4.1', '2026.5.0')]: bytes }],
  ])('says that an index does not have the wheel, but those %s', async (_what, others) => {
    const { url, requests } = await startIndex({ files: others });
    const error = await refused({ indexUrl: `${url}/simple` });
    expect(error).toMatchObject({ code: 'DOWNLOAD_FAILED' });
    expect(error.message).toContain(
      `${url}/simple/ does not have ${wheelNamed()}; download the wheel yourself`,
    );
    expect([requests.length, left()]).toEqual([1, []]);
  });

  it('says that the index does not have the project, and that http is refused', async () => {
    const { url } = await startIndex({ files });
    expect((await refused({ indexUrl: `${url}/nothing` })).message).toMatch(/nothing\/openvino\/.* 404/);
    expect((await refused({ indexUrl: 'http://index.example/simple' })).message).toMatch(/--allow-http/);
  });

  it('leaves nothing of a damaged wheel that counts', async () => {
    const damaged = { [wheelNamed()]: makeWheel([{ name: 'openvino/libs/libz.so', bytes, statedCrc: 1 }]) };
    const { url } = await startIndex({ files: damaged });
    const error = await refused({ indexUrl: `${url}/simple` }, tableOf(damaged));
    expect(error).toMatchObject({ code: 'PACKAGE_INVALID' });
    expect(await findInstalledEngine('openvino')).toBeNull();
    expect(left()).toEqual([]);
  });

  it('installs a local wheel without a network', async () => {
    vi.stubEnv('PIP_INDEX_URL', 'http://127.0.0.1:9/simple');
    const wheel = join(scratch, wheelNamed());
    writeFileSync(wheel, bytes);
    expect(await install({ wheel })).toMatchObject({
      wheels: [{ filename: wheelNamed(), sha256: sha256Of(bytes) }],
    });
    expect(existsSync(wheel)).toBe(true);
    expect(left()).toEqual(['openvino-2026.4.1']);
  });

  it('takes a local wheel of any listed Python, and the first listed one from an index', async () => {
    const [first, second] = [wheelNamed(), wheelNamed('cp312')];
    const both = { [first]: bytes, [second]: makeWheel() };
    const wheel = join(scratch, second);
    writeFileSync(wheel, both[second]!);
    expect(await install({ wheel }, tableOf(both))).toMatchObject({ wheels: [{ filename: second }] });
    await removeEngine('openvino');
    const { url } = await startIndex({ files: both });
    const indexUrl = `${url}/simple`;
    expect(await install({ indexUrl }, tableOf(both))).toMatchObject({ wheels: [{ filename: first }] });
  });

  it('refuses local wheels of another version or platform, and missing ones', async () => {
    for (const name of [
      wheelNamed('cp312', 'manylinux_2_17_s390x'),
      wheelNamed().replace('2026.4.1', '2026.3.0'),
      wheelNamed().replace('openvino', 'torch'),
      'renamed.whl',
      wheelNamed('cp399'),
    ])
      expect(await refused({ wheel: join(scratch, 'nowhere', name) })).toMatchObject({
        code: 'OPTION_INVALID',
        details: { option: 'wheel' },
      });
  });

  it('checks its options', async () => {
    const wrong = [{ attempts: 0 }, { indexUrl: '' }, { indexUrl: 'simple' }, { wheel: 3 as never }];
    for (const options of wrong) expect(await refused(options)).toMatchObject({ code: 'OPTION_INVALID' });
    expect(await failureOf(installEngine('torch' as never, {}, new Map()), TapirError)).toMatchObject({
      code: 'OPTION_INVALID',
    });
    expect(await refused({ unknown: 1 } as never)).toMatchObject({ code: 'OPTION_INVALID' });
  });

  it('stops when the signal fires, and resumes later', async () => {
    const { url } = await startIndex({ files });
    const stop = new AbortController();
    const stopped = install({
      indexUrl: `${url}/simple`,
      signal: stop.signal,
      onProgress: () => stop.abort(new Error('enough')),
    });
    await expect(stopped).rejects.toThrow('enough');
    expect(await findInstalledEngine('openvino')).toBeNull();
    await install({ indexUrl: `${url}/simple` });
    expect(left()).toEqual(['openvino-2026.4.1']);
  });

  it('lets one of two processes do it, and repairs what an interrupted one left', async () => {
    const { url } = await startIndex({ files });
    const indexUrl = `${url}/simple`;
    const both = await Promise.allSettled([install({ indexUrl }), install({ indexUrl })]);
    expect(both.filter(({ status }) => status === 'fulfilled').length).toBeGreaterThan(0);
    for (const one of both)
      if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'OUTPUT_LOCKED' });
    const { folder } = (await findInstalledEngine('openvino'))!;
    mkdirSync(join(engines, '.new-1-abc', 'libs'), { recursive: true });
    mkdirSync(join(engines, '.gone-1-abc'));
    for (const damage of [
      () => rmSync(join(folder, 'libs/libtbb.so.12')),
      () => writeFileSync(join(folder, 'libs/libtbb.so.12'), 'short'),
      () => rmSync(join(folder, 'engine.json')),
      () => writeFileSync(join(folder, 'engine.json'), 'null'),
      () => writeFileSync(join(folder, 'engine.json'), '{"wheels":[],"sizes":null}'),
      () => writeFileSync(join(folder, 'engine.json'), '{"wheels":[{"filename":"a"}],"sizes":{}}'),
    ]) {
      damage();
      expect(await findInstalledEngine('openvino')).toBeNull();
      expect(await install({ indexUrl })).toMatchObject({ folder });
      expect(left()).toEqual(['openvino-2026.4.1']);
    }
  });

  it('says where it cannot write', async () => {
    const { url } = await startIndex({ files });
    mkdirSync(join(engines, '..'), { recursive: true });
    writeFileSync(engines, 'a file');
    expect(await refused({ indexUrl: `${url}/simple` })).toMatchObject({ code: 'OUTPUT_UNWRITABLE' });
  });
});

describe('removeEngine', () => {
  it('removes all versions and unfinished downloads, and nothing else', async () => {
    const { url } = await startIndex({ files });
    await install({ indexUrl: `${url}/simple` });
    mkdirSync(join(engines, 'openvino-2025.1'));
    writeFileSync(join(engines, `${wheelNamed()}.partial`), 'half');
    mkdirSync(join(engines, 'other-1.0'));
    expect((await removeEngine('openvino')).length).toBe(3);
    expect(left()).toEqual(['other-1.0']);
    expect(await removeEngine('openvino')).toEqual([]);
    expect(await findInstalledEngine('openvino')).toBeNull();
  });
});
