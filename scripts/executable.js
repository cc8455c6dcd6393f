/** Makes the command executable, as npm does when it installs the package. */
import { chmodSync } from 'node:fs';

chmodSync(new URL('../dist/cli/bin.cjs', import.meta.url), 0o755);
