/** The installed onnxruntime-node, found without loading it. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { packageRequire } from '../../base/package.js';

/** Version and folder of the installed onnxruntime-node; undefined if it is not installed. */
export function findRuntimePackage(): { readonly version: string; readonly folder: string } | undefined {
  try {
    const path = packageRequire.resolve('onnxruntime-node/package.json');
    const { version } = JSON.parse(readFileSync(path, 'utf8')) as { version: string };
    return { version, folder: dirname(path) };
  } catch {
    return undefined;
  }
}

/** The folder of its native module and of onnxruntime's library; undefined if it is not installed. */
export function bindingFolder(): string | undefined {
  const root = findRuntimePackage()?.folder;
  return root === undefined ? undefined : join(root, 'bin/napi-v6', process.platform, process.arch);
}
