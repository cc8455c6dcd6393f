/** The larger set of fixtures that may lie beside the checkout. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The script that unpacks it and prints where. */
export const sharedUnpacker = fileURLToPath(new URL('../../../shared/fixtures/unpack.mjs', import.meta.url));
export const hasShared = existsSync(sharedUnpacker);
