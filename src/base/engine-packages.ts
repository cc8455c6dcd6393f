/** The engines that `tapir engines install` can install: their pinned versions, and the folders that hold their libraries. */
import { join } from 'node:path';
import { defaultCacheFolder } from './cache-folder.js';

/** An engine whose libraries come in a package of the Python package index. */
export type InstallableEngine = 'openvino';

/** The package that holds an engine's libraries. */
export interface EnginePackage {
  /** Its name on the package index. */
  readonly project: string;
  /** The only version that this release uses: an engine's C API may change between versions. */
  readonly version: string;
  /** The npm package that calls the libraries; the user installs it. */
  readonly caller: string;
  /** The licence of the libraries: its SPDX identifier and its text. */
  readonly licence: { readonly spdx: string; readonly url: string };
}

export const ENGINE_PACKAGES: Readonly<Record<InstallableEngine, EnginePackage>> = {
  openvino: {
    project: 'openvino',
    version: '2026.4.1',
    caller: 'koffi',
    licence: {
      spdx: 'Apache-2.0',
      url: 'https://github.com/openvinotoolkit/openvino/blob/master/LICENSE',
    },
  },
};

/** Folder of the shared libraries, inside an engine's folder. */
export const ENGINE_LIBRARIES = 'libs';

/** The record of an installed engine, inside its folder. */
export const ENGINE_RECORD = 'engine.json';

/**
 * Returns the folder of an installed engine. It appears complete, with its libraries in `libs` and its record `engine.json`, or
 * not at all.
 */
export function engineFolder(name: InstallableEngine): string {
  return join(defaultCacheFolder(), 'engines', `${name}-${ENGINE_PACKAGES[name].version}`);
}
