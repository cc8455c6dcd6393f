/** Where this package keeps files of its own: the user’s cache folder, by the rules of the system. */
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/** The folder of prepared and downloaded models: `$XDG_CACHE_HOME/onnx-tapir` or what the system has instead. It need not exist. */
export function defaultCacheFolder(): string {
  return join(userCacheFolder(), 'onnx-tapir');
}

function userCacheFolder(): string {
  if (process.platform === 'darwin') return join(homedir(), 'Library', 'Caches');
  if (process.platform === 'win32') return process.env['LOCALAPPDATA'] ?? join(homedir(), 'AppData', 'Local');
  const stated = process.env['XDG_CACHE_HOME'] ?? '';
  // The specification has relative paths ignored.
  return isAbsolute(stated) ? stated : join(homedir(), '.cache');
}
