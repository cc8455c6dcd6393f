/** Whether the CUDA provider of onnxruntime is there, told from its files: onnxruntime gives the same text for every cause. */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const LIBRARIES: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  linux: ['libonnxruntime_providers_shared.so', 'libonnxruntime_providers_cuda.so'],
  win32: ['onnxruntime_providers_shared.dll', 'onnxruntime_providers_cuda.dll'],
};

/** What is missing for CUDA beside onnxruntime-node, and how to get it; undefined if nothing is. */
export function whyNoCuda(): string | undefined {
  const names = LIBRARIES[process.platform];
  if (!names || process.arch !== 'x64')
    return `onnxruntime-node has no CUDA provider for ${process.platform} ${process.arch}`;
  const root = dirname(createRequire(import.meta.url).resolve('onnxruntime-node/package.json'));
  const folder = join(root, 'bin/napi-v6', process.platform, process.arch);
  const missing = names.filter((name) => !existsSync(join(folder, name)));
  if (missing.length === 0) return undefined;
  const command = 'ONNXRUNTIME_NODE_INSTALL=true node node_modules/onnxruntime-node/script/install.js';
  return `${missing.join(' and ')} missing beside onnxruntime-node; fetch with "${command}"`;
}
