/** Finds OpenVINO's shared libraries, without loading them. */
import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { namesIn } from '../../../base/folder-names.js';
import { ENGINE_LIBRARIES, engineFolder } from '../../../base/engine-packages.js';
import { TapirError } from '../../../base/errors.js';
import { stampOf } from '../../../base/file-stamp.js';
import { packageRequire } from '../../../base/package.js';

/** Where OpenVINO's libraries were found. */
export interface OpenVinoLibraries {
  readonly folder: string;
  /** How the folder was chosen, in words. */
  readonly from: string;
  /** Libraries to load, in this order. Each needs only those before it, so the system's search path does not matter. */
  readonly paths: readonly string[];
  /** A text that differs if the libraries do. */
  readonly identity: string;
}

/** The parts of OpenVINO that a session needs, by file name on Linux, macOS and Windows. The last one has the C API. */
const PARTS = [
  /^(?:lib)?tbb(?:12)?(?:\.so\.12|\.12(?:\.\d+)?\.dylib|\.dll)$/,
  /^(?:lib)?openvino(?:\.so(?:\.\d+)*|(?:\.\d+)*\.dylib|\.dll)$/,
  /^(?:lib)?openvino_c(?:\.so(?:\.\d+)*|(?:\.\d+)*\.dylib|\.dll)$/,
];

/**
 * Finds the libraries: in the folder `OPENVINO_LIBS`, where `tapir engines install openvino` puts them, in the active Python
 * environment, or in an installed openvino-node.
 *
 * @throws {@link TapirError} `DEPENDENCY_MISSING`.
 */
export function findOpenVino(): OpenVinoLibraries {
  const stated = process.env['OPENVINO_LIBS'];
  if (stated !== undefined && stated !== '') {
    const found = librariesIn(stated, 'OPENVINO_LIBS');
    if (found) return found;
    throw missing(`OPENVINO_LIBS is "${stated}", which is no folder with libopenvino_c`, 'unset it');
  }
  for (const { folder, from } of candidates()) {
    const found = librariesIn(folder, from);
    if (found) return found;
  }
  throw missing('its libraries are not installed', 'or set OPENVINO_LIBS to a folder that has them');
}

function* candidates(): Generator<{ readonly folder: string; readonly from: string }> {
  yield { folder: join(engineFolder('openvino'), ENGINE_LIBRARIES), from: 'tapir engines install' };
  const environment = process.env['VIRTUAL_ENV'] ?? process.env['CONDA_PREFIX'];
  if (environment !== undefined)
    for (const packages of sitePackages(environment))
      yield { folder: join(packages, 'openvino', 'libs'), from: 'the Python environment' };
  try {
    const path = packageRequire.resolve('openvino-node/package.json');
    yield { folder: join(dirname(path), 'bin'), from: 'openvino-node' };
  } catch {
    // It is not installed.
  }
}

/** Folders of packages in a Python environment. */
function sitePackages(environment: string): string[] {
  if (process.platform === 'win32') return [join(environment, 'Lib', 'site-packages')];
  return namesIn(join(environment, 'lib'))
    .filter((name) => name.startsWith('python3'))
    .map((name) => join(environment, 'lib', name, 'site-packages'));
}

function librariesIn(folder: string, from: string): OpenVinoLibraries | undefined {
  const names = namesIn(folder);
  const found = PARTS.map((part) => names.find((name) => part.test(name)));
  const main = found.at(-1);
  if (main === undefined) return undefined;
  const paths = found.flatMap((name) => (name === undefined ? [] : [join(folder, name)]));
  return { folder, from, paths, identity: `${join(folder, main)}:${stampOf(statSync(join(folder, main)))}` };
}

function missing(reason: string, otherwise: string): TapirError<'DEPENDENCY_MISSING'> {
  return new TapirError(
    'DEPENDENCY_MISSING',
    `OpenVINO cannot be loaded: ${reason}; run "tapir engines install openvino", ${otherwise}, or choose engine "onnxruntime"`,
    { details: { package: 'openvino', reason } },
  );
}
