/** The environment of Hugging Face's libraries. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { readHubSettings } from '../../../src/learn/hub/hub-settings.js';
import { scratchFolder } from '../../support/fixtures.js';

const scratch = scratchFolder();

beforeEach(() => {
  for (const name of Object.keys(process.env).filter((key) =>
    /^(?:HF_|HUGGING|XDG_CACHE|TRANSFORMERS_)/.test(key),
  ))
    vi.stubEnv(name, undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

describe('readHubSettings', () => {
  it('has the defaults of huggingface_hub', async () => {
    vi.stubEnv('HF_TOKEN_PATH', join(scratch, 'none'));
    expect(await readHubSettings()).toEqual({
      endpoint: 'https://huggingface.co',
      cacheFolder: join(homedir(), '.cache', 'huggingface', 'hub'),
      token: null,
      isOffline: false,
    });
  });

  it.each([
    [{ XDG_CACHE_HOME: '/x' }, '/x/huggingface/hub'],
    [{ XDG_CACHE_HOME: '/x', HF_HOME: '/h' }, '/h/hub'],
    [{ HF_HOME: '/h', HUGGINGFACE_HUB_CACHE: '/old' }, '/old'],
    [{ HF_HOME: '/h', HF_HUB_CACHE: '/c' }, '/c'],
    [{ HF_HOME: '~/hf' }, join(homedir(), 'hf/hub')],
    [{ HF_DISK: '/d', HF_HOME: '$HF_DISK/hf', HF_HUB_CACHE: '${HF_DISK}/$NO_SUCH/hub' }, '/d/$NO_SUCH/hub'],
  ])('%j', async (env: Readonly<Record<string, string>>, expected) => {
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    expect((await readHubSettings()).cacheFolder).toBe(
      expected.split('/').join(process.platform === 'win32' ? '\\' : '/'),
    );
  });

  it('reads the token file unless that is forbidden; HF_TOKEN goes first', async () => {
    mkdirSync(join(scratch, 'home'));
    writeFileSync(join(scratch, 'home', 'token'), 'hf_file\n');
    vi.stubEnv('HF_HOME', join(scratch, 'home'));
    expect((await readHubSettings()).token).toBe('hf_file');
    vi.stubEnv('HF_HUB_DISABLE_IMPLICIT_TOKEN', '1');
    expect((await readHubSettings()).token).toBeNull();
    vi.stubEnv('HF_TOKEN', 'hf_variable');
    expect((await readHubSettings()).token).toBe('hf_variable');
  });

  it.each(['1', 'true', 'YES', 'on'])('is offline with %s', async (value) => {
    vi.stubEnv('HF_HUB_OFFLINE', value);
    expect((await readHubSettings()).isOffline).toBe(true);
  });

  it.each(['hub.example', 'ftp://hub.example'])('has no endpoint %s', async (endpoint) => {
    vi.stubEnv('HF_ENDPOINT', endpoint);
    await expect(readHubSettings()).rejects.toMatchObject({ code: 'OPTION_INVALID' });
  });
});
