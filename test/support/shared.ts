/** The larger set of fixtures that may lie beside the checkout. */
import { execFileSync } from 'node:child_process';
import { existsSync, realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The script that unpacks it and prints where. */
export const sharedUnpacker = fileURLToPath(new URL('../../../shared/fixtures/unpack.mjs', import.meta.url));
export const hasShared = existsSync(sharedUnpacker);

/** Unpacks it, or finds what was unpacked before. Returns the folder. */
export function unpackShared(): string {
  const printed = execFileSync(process.execPath, [realpathSync(sharedUnpacker)], { encoding: 'utf8' });
  return printed.trim().split('\n').at(-1)!;
}
