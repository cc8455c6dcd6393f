/** The files of this package: its version, its threads, its pages. They are found even after a bundler has moved this code. */
import { existsSync, readFileSync } from 'node:fs';
import type Module from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { TapirError } from './errors.js';

const NAME = 'onnx-tapir';

/** This file. Undefined if a bundler has turned this code into CommonJS, or has written the path of the machine that built. */
const here = standing(import.meta.url as string | undefined);

/** Node's own. Asked of the process, because webpack takes any other spelling for an import, and replaces it. */
export const createRequire: typeof Module.createRequire =
  process.getBuiltinModule('node:module').createRequire;

/** `require` relative to this file, for CommonJS packages and for packages that are loaded late. */
export const packageRequire: NodeJS.Require = createRequire(here ?? join(process.cwd(), 'index.js'));

let root: string | undefined;

/**
 * Finds a file of the installed package, by its path with `/`. Throws `DEPENDENCY_MISSING` if a bundler took the package's code and left
 * its files.
 */
export function packageFile(path: string): string {
  root ??= findRoot();
  return join(root, path);
}

/** The name of the trained model that comes with the package, and its file: an EfficientNet-Lite0, whose transform lies beside it. */
const DEMO = 'demo';
const DEMO_FILE = 'models/demo.onnx';

/** The path of a model as a user names it: `demo` is the one of the package, unless a file has that name. */
export function modelFile(given: string): string {
  return given === DEMO && !existsSync(given) ? packageFile(DEMO_FILE) : given;
}

/** Returns the version of this package. */
export function packageVersion(): string {
  return (JSON.parse(readFileSync(packageFile('package.json'), 'utf8')) as { version: string }).version;
}

function findRoot(): string {
  for (let folder = here && dirname(fileURLToPath(here)); folder; folder = parentOf(folder))
    if (isPackage(join(folder, 'package.json'))) return folder;
  try {
    return dirname(packageRequire.resolve(`${NAME}/package.json`));
  } catch (error) {
    const reason = `the files of ${NAME} were not found from ${here ?? process.cwd()}`;
    throw new TapirError(
      'DEPENDENCY_MISSING',
      `${reason}; if a bundler packed this program, mark "${NAME}" as external and install it where the program runs`,
      { details: { package: NAME, reason }, cause: error },
    );
  }
}

function standing(url: string | undefined): string | undefined {
  return url !== undefined && existsSync(fileURLToPath(url)) ? url : undefined;
}

function parentOf(folder: string): string | undefined {
  const parent = dirname(folder);
  return parent === folder ? undefined : parent;
}

function isPackage(file: string): boolean {
  return existsSync(file) && (JSON.parse(readFileSync(file, 'utf8')) as { name?: unknown }).name === NAME;
}
