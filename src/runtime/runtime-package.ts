/** The installed onnxruntime-node, found without loading it. */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { packageRequire } from '../base/package.js';

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
