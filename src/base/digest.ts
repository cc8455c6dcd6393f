/** SHA-256, in hexadecimal digits. */
import { createHash } from 'node:crypto';
import { open, type FileHandle } from 'node:fs/promises';

const AT_ONCE_BYTES = 1024 ** 2;

/** Hashes a text, as UTF-8, or bytes. */
export function digestOf(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Hashes a file, or its first `sizeBytes` bytes. */
export async function digestFile(path: string | FileHandle, sizeBytes: number = Infinity): Promise<string> {
  if (typeof path === 'string') {
    await using file = await open(path);
    return await digestFile(file, sizeBytes);
  }
  const hash = createHash('sha256');
  const buffer = Buffer.allocUnsafe(Math.min(sizeBytes, AT_ONCE_BYTES));
  for (let at = 0; at < sizeBytes;) {
    // oxlint-disable-next-line no-await-in-loop -- one buffer
    const { bytesRead } = await path.read(buffer, 0, Math.min(buffer.length, sizeBytes - at), at);
    if (bytesRead === 0) break;
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash.digest('hex');
}
