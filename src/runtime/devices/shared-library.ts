/** Loading a shared library into this process, to be found by libraries that need it; and hearing why it does not load. */
import { constants } from 'node:os';
import { reasonOf } from '../../base/errors.js';

/** Stays in memory after the handle is closed, which Node does with everything that is no module of its own. */
const RTLD_NODELETE = 0x1000;

/**
 * Loads a library.
 *
 * @param path - A file, or a bare name that the system's loader looks for.
 * @returns undefined if it is loaded now; else the loader's reason.
 */
export function loadLibrary(path: string): string | undefined {
  const { RTLD_NOW, RTLD_GLOBAL } = constants.dlopen;
  try {
    process.dlopen({ exports: {} }, path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    return undefined;
  } catch (error) {
    const reason = reasonOf(error);
    // Node's complaint about a library that is loaded, but is no module of Node.
    return reason.includes('did not self-register') ? undefined : reason;
  }
}

/** The name of the library that the loader's reason says is not there: perhaps one that the asked one needs. */
export function missingName(reason: string): string | undefined {
  return /^(\S+): cannot open shared object file/.exec(reason)?.[1];
}
