/** Where this package keeps its own files: in the user’s cache folder, by the rules of the system. */
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';

/** Returns the folder of prepared and downloaded models. On Linux it is `$XDG_CACHE_HOME/onnx-tapir`. It need not exist. */
export function defaultCacheFolder(): string {
  return join(userCacheFolder(), 'onnx-tapir');
}

function userCacheFolder(): string {
  if (process.platform === 'darwin') return join(homedir(), 'Library', 'Caches');
  if (process.platform === 'win32') return process.env['LOCALAPPDATA'] ?? join(homedir(), 'AppData', 'Local');
  const stated = process.env['XDG_CACHE_HOME'] ?? '';
  // The XDG specification ignores relative paths.
  return isAbsolute(stated) ? stated : join(homedir(), '.cache');
}
