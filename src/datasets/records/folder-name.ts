/** The folder of an output's files. */
import { invalidOption } from '../../base/checks.js';
import { isDeviceName } from '../../base/files/portable-name.js';

/** Percent-encodes all bytes outside `[A-Za-z0-9._-]`, and escapes names with a special meaning (`..`, `con`, …). */
export function folderName(key: string): string {
  const encoded = Array.from(Buffer.from(key, 'utf8'), (byte) => {
    const char = String.fromCharCode(byte);
    return /[A-Za-z0-9._-]/.test(char) ? char : percent(byte);
  }).join('');
  // Windows drops dots at the end.
  const ended = encoded.replace(/\.+$/, (dots) => '%2E'.repeat(dots.length));
  return isDeviceName(ended) ? percent(ended.charCodeAt(0)) + ended.slice(1) : ended;
}

function percent(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
}

/** Returns the folder of each key. Throws `OPTION_INVALID` for keys whose folders differ only by case. */
export function folderNames(keys: readonly string[]): ReadonlyMap<string, string> {
  const folders = new Map(keys.map((key) => [key, folderName(key)]));
  const seen = new Map<string, string>();
  for (const [key, folder] of folders) {
    const other = seen.get(folder.toLowerCase());
    if (other !== undefined) {
      throw invalidOption(
        'returnNodes',
        `made of keys that differ by more than case ("${other}" is another one)`,
        key,
      );
    }
    seen.set(folder.toLowerCase(), key);
  }
  return folders;
}
