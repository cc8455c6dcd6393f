/** Removes the last build, so that files of deleted sources do not linger in it. */
import { rmSync } from 'node:fs';

rmSync(new URL('../dist', import.meta.url), { recursive: true, force: true });
