/** Loads shared libraries into this process, so that other libraries find them, or says why that failed. */
import { constants } from 'node:os';
import { reasonOf } from '../../../base/errors.js';

/** Keeps a library in memory after Node has closed its handle, which it does because the library is no Node module. */
const RTLD_NODELETE = process.platform === 'darwin' ? 0x80 : 0x1000;

/**
 * Loads a library.
 *
 * @param path - A file, or a bare name for which the system's loader searches.
 * @returns undefined if the library is loaded; else the loader's reason.
 */
export function loadLibrary(path: string): string | undefined {
  const { RTLD_NOW, RTLD_GLOBAL } = constants.dlopen;
  try {
    process.dlopen({ exports: {} }, path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    return undefined;
  } catch (error) {
    const reason = reasonOf(error);
    // Node reports this for a library that it has loaded and that is no Node module.
    return reason.includes('did not self-register') ? undefined : reason;
  }
}

/** The name of the missing library in the loader's reason: the requested one, or one that it needs. */
export function missingName(reason: string): string | undefined {
  return /^(\S+): cannot open shared object file/.exec(reason)?.[1];
}
