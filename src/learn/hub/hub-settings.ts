/** The user's settings for the Hugging Face hub, from the same environment variables and files as Python's `huggingface_hub`. */
import { readFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { invalidOption } from '../../base/checks.js';

/** Address of the hub, folder of the shared cache, and the user's token. */
export interface HubSettings {
  /** Address without a slash at its end. */
  readonly endpoint: string;
  /** Folder of the shared cache; it need not exist. */
  readonly cacheFolder: string;
  /** Sent to the endpoint only, and never printed; null if the user has no token. */
  readonly token: string | null;
  /** Whether only the cache may be used. */
  readonly isOffline: boolean;
}

export const HUB_ENDPOINT = 'https://huggingface.co';

/**
 * Reads the settings: `HF_ENDPOINT`, `HF_HUB_CACHE`, `HF_HOME`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`.
 * Throws `OPTION_INVALID` for an endpoint that is not an HTTP address, and for a token that an HTTP header cannot carry.
 */
export async function readHubSettings(): Promise<HubSettings> {
  const home =
    folderOf('HF_HOME') ?? join(folderOf('XDG_CACHE_HOME') ?? join(homedir(), '.cache'), 'huggingface');
  const endpoint = (textOf('HF_ENDPOINT') ?? HUB_ENDPOINT).replace(/\/+$/, '');
  if (!URL.canParse(endpoint) || !/^https?:$/.test(new URL(endpoint).protocol))
    throw invalidOption('HF_ENDPOINT', 'the address of a hub, such as https://hub.example', endpoint);
  return {
    endpoint,
    cacheFolder: folderOf('HF_HUB_CACHE') ?? folderOf('HUGGINGFACE_HUB_CACHE') ?? join(home, 'hub'),
    token: await readToken(folderOf('HF_TOKEN_PATH') ?? join(home, 'token')),
    isOffline: isOn('HF_HUB_OFFLINE') || isOn('TRANSFORMERS_OFFLINE'),
  };
}

async function readToken(path: string): Promise<string | null> {
  const stated = textOf('HF_TOKEN') ?? textOf('HUGGING_FACE_HUB_TOKEN');
  if (stated === undefined && isOn('HF_HUB_DISABLE_IMPLICIT_TOKEN')) return null;
  const token = (stated ?? (await readFile(path, 'utf8').catch(() => ''))).trim();
  // The value must not appear in the message.
  if (!/^[\x21-\x7e]*$/.test(token))
    throw invalidOption('HF_TOKEN', 'printable ASCII without spaces', '(hidden)');
  return token === '' ? null : token;
}

function isOn(name: string): boolean {
  return /^(?:1|on|yes|true)$/i.test(textOf(name) ?? '');
}

/** Reads the path of a folder. As in Python's library, `~` and variables are expanded. */
function folderOf(name: string): string | undefined {
  return textOf(name)
    ?.replace(/^~(?=[\\/]|$)/, () => homedir())
    .replace(/\$(?:(\w+)|\{(\w+)\})/g, (text, plain?: string, braced?: string) => {
      return process.env[plain ?? braced ?? ''] ?? text;
    });
}

function textOf(name: string): string | undefined {
  return process.env[name]?.trim() || undefined;
}
