/** The address of the Python package index, from the same variables and configuration files as pip. */
import { readFile } from 'node:fs/promises';
import { devNull, homedir } from 'node:os';
import { join } from 'node:path';
import { invalidOption } from '../../base/checks.js';
import { authorizationOf, isHttpUrl } from '../../base/http/http.js';

/** A package index that answers with JSON (PEP 691). */
export interface PackageIndex {
  /** Its address without user and password; ends with a slash. */
  readonly url: string;
  /** The `Authorization` header; goes to the origin of the address only, and is never printed. */
  readonly authorization: string | undefined;
  /** Where the address comes from: an option, a variable or a file. */
  readonly from: string;
}

const DEFAULT_INDEX = 'https://pypi.org/simple/';

/**
 * Returns the index to ask: the stated one; or that of `PIP_INDEX_URL`, of pip's configuration files, or the public default. Throws
 * `OPTION_INVALID` for an address that cannot be read, or if pip's settings say `no-index`.
 */
export async function readPackageIndex(stated: string | undefined): Promise<PackageIndex> {
  if (stated !== undefined) return readIndex(stated, '--index-url');
  const settings = await readPipSettings();
  const without = settings('no-index');
  if (/^(?:1|on|t|true|y|yes)$/i.test(without?.value ?? ''))
    throw invalidOption('indexUrl', `stated (--index-url), because ${without!.from} says no-index`, stated);
  const { value, from } = settings('index-url') ?? { value: DEFAULT_INDEX, from: 'the default index' };
  return readIndex(value, from);
}

function readIndex(text: string, from: string): PackageIndex {
  try {
    if (!isHttpUrl(text)) throw new Error('not an HTTP address');
    const { url, authorization } = splitCredentials(text);
    return { url: url.replace(/\/*$/, '/'), authorization, from };
  } catch {
    // The value may contain a password.
    const expected = `the address of a package index, such as https://index.example/simple (from: ${from})`;
    throw invalidOption('indexUrl', expected, '(hidden)');
  }
}

/** Splits an address into the address without user and password, and the header that carries them. Throws if it cannot be read. */
export function splitCredentials(text: string): Pick<PackageIndex, 'url' | 'authorization'> {
  const url = new URL(text);
  const { authorization } = authorizationOf(url);
  url.username = '';
  url.password = '';
  return { url: url.href, authorization };
}

interface Setting {
  readonly value: string;
  readonly from: string;
}

/** Reads pip's settings. A variable takes precedence, then `[install]` of any file, then `[global]`; a later file over an earlier one. */
async function readPipSettings(): Promise<(name: string) => Setting | undefined> {
  const values = new Map<string, Setting>();
  for (const from of listConfigFiles()) {
    const text = await readFile(from, 'utf8').catch(() => '');
    for (const [key, value] of parseConfig(text)) values.set(key, { value, from });
  }
  return (name) => {
    const variable = `PIP_${name.toUpperCase().replaceAll('-', '_')}`;
    const value = process.env[variable]?.trim();
    if (value) return { value, from: variable };
    return values.get(`install.${name}`) ?? values.get(`global.${name}`);
  };
}

/** Lists pip's configuration files: those of the machine, of the user, of the Python environment, and of `PIP_CONFIG_FILE`. */
function listConfigFiles(): string[] {
  const { env, platform } = process;
  const stated = env['PIP_CONFIG_FILE'];
  if (stated === devNull) return [];
  const [machine, user] =
    platform === 'win32'
      ? [join(env['ProgramData'] ?? 'C:\\ProgramData', 'pip'), join(env['APPDATA'] ?? homedir(), 'pip')]
      : ['/etc', join(env['XDG_CONFIG_HOME'] || join(homedir(), '.config'), 'pip')];
  const site = env['VIRTUAL_ENV'] ?? env['CONDA_PREFIX'];
  const folders = [machine, ...(stated === undefined ? [user] : []), ...(site ? [site] : [])];
  const name = platform === 'win32' ? 'pip.ini' : 'pip.conf';
  return [...folders.map((folder) => join(folder, name)), ...(stated ? [stated] : [])];
}

/** Parses a file as Python's configparser does, for values of one line: `[section]`, `key = value` or `key: value`. */
function parseConfig(text: string): Map<string, string> {
  const values = new Map<string, string>();
  let section = '';
  for (const line of text.replace(/^\uFEFF/, '').split(/\r?\n/)) {
    const header = /^\[(.+)\]/.exec(line);
    if (header) section = header[1]!;
    const [, key, value] = (header ? null : /^([^\s#;=:][^=:]*)[=:](.*)$/.exec(line)) ?? [];
    if (key !== undefined)
      values.set(`${section}.${key.trim().toLowerCase().replaceAll('_', '-')}`, value!.trim());
  }
  return values;
}
