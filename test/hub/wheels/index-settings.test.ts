/** Which package index pip would ask, on Linux; the folders of other systems differ. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { devNull, homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { TapirError } from '../../../src/base/errors.js';
import { readPackageIndex } from '../../../src/hub/wheels/index-settings.js';
import { failureOf } from '../../support/failure.js';
import { scratchFolder } from '../../support/fixtures.js';

const scratch = scratchFolder();
let count = 0;
let folder = '';

beforeEach(() => {
  folder = join(scratch, String(count++));
  for (const name of Object.keys(process.env).filter((key) =>
    /^(?:PIP_|XDG_CONFIG|VIRTUAL_ENV|CONDA)/.test(key),
  ))
    vi.stubEnv(name, undefined);
  vi.stubEnv('HOME', join(folder, 'home'));
  vi.stubEnv('USERPROFILE', join(folder, 'home'));
  vi.stubEnv('APPDATA', join(folder, 'home', 'appdata'));
  vi.stubEnv('ProgramData', join(folder, 'machine'));
  vi.stubEnv('XDG_CONFIG_DIRS', join(folder, 'machine'));
});
afterEach(() => {
  vi.unstubAllEnvs();
});

function write(path: string, text: string): string {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

const url = async (stated?: string): Promise<string> => (await readPackageIndex(stated)).url;

describe('readPackageIndex', () => {
  it('takes the public index without settings', async () => {
    vi.stubEnv('PIP_CONFIG_FILE', devNull);
    const index = await readPackageIndex(undefined);
    expect(index).toMatchObject({ authorization: undefined, from: 'the default index' });
    expect(index.url).toMatch(/^https:.*\/simple\/$/);
  });

  it('takes a stated index alone, whatever else is set', async () => {
    vi.stubEnv('PIP_INDEX_URL', 'https://variable.example/simple');
    vi.stubEnv('PIP_NO_INDEX', '1');
    expect(await url('http://localhost:8080/simple')).toBe('http://localhost:8080/simple/');
  });

  it.runIf(process.platform === 'linux')('takes files in the order of pip', async () => {
    const user = write(
      'home/.config/pip/pip.conf',
      '\uFEFF# mine\n[global]\nINDEX_URL: https://user.example/simple\n\n[other]\nindex-url = https://other.example\n',
    );
    expect(homedir()).toBe(join(folder, 'home'));
    expect(await readPackageIndex(undefined)).toMatchObject({
      url: 'https://user.example/simple/',
      from: user,
    });
    vi.stubEnv('XDG_CONFIG_HOME', join(folder, 'xdg'));
    write('xdg/pip/pip.conf', '[global]\nindex-url = https://xdg.example/simple\n');
    expect(await url()).toBe('https://xdg.example/simple/');
    vi.stubEnv('VIRTUAL_ENV', join(folder, 'venv'));
    write('venv/pip.conf', '[global]\nindex-url = https://site.example/simple\n');
    expect(await url()).toBe('https://site.example/simple/');
    // The section of the command takes precedence, in any file.
    write('xdg/pip/pip.conf', '[install]\nindex-url = https://install.example/simple\n');
    expect(await url()).toBe('https://install.example/simple/');
    vi.stubEnv('PIP_INDEX_URL', ' https://variable.example/simple/ ');
    expect(await url()).toBe('https://variable.example/simple/');
  });

  it('reads PIP_CONFIG_FILE last, and not the files of the user then', async () => {
    vi.stubEnv(
      'PIP_CONFIG_FILE',
      write('stated.conf', '[global]\nindex-url = https://stated.example/simple\n'),
    );
    write('home/.config/pip/pip.conf', '[install]\nindex-url = https://user.example/simple\n');
    expect(await url()).toBe('https://stated.example/simple/');
  });

  it('takes user and password out of the address', async () => {
    vi.stubEnv('PIP_INDEX_URL', 'https://me:p%40ss@private.example/simple');
    expect(await readPackageIndex(undefined)).toEqual({
      url: 'https://private.example/simple/',
      authorization: `Basic ${Buffer.from('me:p@ss').toString('base64')}`,
      from: 'PIP_INDEX_URL',
    });
  });

  it.each(['https://me:hunter2@', 'ftp://me:hunter2@host/', 'me:hunter2', 'https://me:hunter2%ZZ@host/'])(
    'refuses %s without printing it',
    async (url) => {
      vi.stubEnv('PIP_INDEX_URL', url);
      const error = await failureOf(readPackageIndex(undefined), TapirError);
      expect(error).toMatchObject({ code: 'OPTION_INVALID', details: { option: 'indexUrl' } });
      expect(error.message).toContain('PIP_INDEX_URL');
      expect(JSON.stringify([error.message, error.details])).not.toContain('hunter2');
    },
  );

  it('asks no index if pip may not', async () => {
    vi.stubEnv('PIP_CONFIG_FILE', write('no.conf', '[global]\nno-index = true\n'));
    const error = await failureOf(readPackageIndex(undefined), TapirError);
    expect(error).toMatchObject({ code: 'OPTION_INVALID' });
    expect(error.message).toMatch(/no\.conf says no-index/);
  });
});
