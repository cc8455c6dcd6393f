/**
 * Finds the GPU of tests: CUDA where TAPIR_GPU=cuda says so, the plugin of WebGPU where it is `plugin` (scripts/test-gpu-plugin.sh); else
 * WebGPU on the first adapter, which can be SwiftShader, a Vulkan driver for the CPU that comes with Debian's chromium. announce.ts looks
 * for it once, before the tests.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findPlugin } from '../../src/run/runtime/capabilities/plugins.js';
import { projectPath } from './fixtures.js';
import { negModel } from './tiny-models.js';

const SWIFT_SHADER = '/usr/lib/chromium/vk_swiftshader_icd.json';

/** Variables by which the Vulkan loader finds SwiftShader; none where it is not installed, or where another driver is named. */
export function driverSettings(): Readonly<Record<string, string>> {
  if (process.env['VK_DRIVER_FILES'] || !existsSync(SWIFT_SHADER)) return {};
  const folder = join(tmpdir(), 'tapir-test-xdg');
  mkdirSync(folder, { recursive: true });
  return { VK_DRIVER_FILES: SWIFT_SHADER, VK_ICD_FILENAMES: SWIFT_SHADER, XDG_RUNTIME_DIR: folder };
}

/** Opens a session on a device and runs it. */
const TRY = `
import { createFeatureExtractor } from 'onnx-tapir';
const [device, model] = process.argv.slice(1);
try {
  const extractor = await createFeatureExtractor(Buffer.from(model, 'hex'), ['y'], { device });
  await extractor.run({ dtype: 'float32', dims: [1, 1, 1, 1], data: Float32Array.of(1) });
  await extractor.close();
} catch ({ message }) {
  console.log(message);
  process.exitCode = 1;
}`;

/** A device that test/gpu runs on. */
export type TestGpu = 'cuda:0' | 'webgpu' | `plugin:${string}`;

function wantedGpu(): TestGpu {
  const wanted = process.env['TAPIR_GPU'];
  if (wanted === 'cuda') return 'cuda:0';
  if (wanted !== 'plugin') return 'webgpu';
  const plugin = findPlugin('webgpu');
  if ('path' in plugin) return `plugin:${plugin.path}`;
  throw new Error(plugin.reason);
}

/** Tries the GPU in another process. Throws with the reason if it does not work. */
export function findGpu(): TestGpu {
  const device = wantedGpu();
  const env = { ...process.env, ...(device === 'cuda:0' ? {} : driverSettings()) };
  const args = ['--input-type=module', '-e', TRY, '--', device, Buffer.from(negModel()).toString('hex')];
  const tried = spawnSync(process.execPath, args, { cwd: projectPath('.'), env, encoding: 'utf8' });
  if (tried.status === 0) return device;
  const reason = tried.stdout.trim() || `trying ${device} ended with ${tried.signal ?? tried.status}`;
  const remedy = device === 'webgpu' ? ' (Debian: chromium and libvulkan1 bring a GPU in software)' : '';
  throw new Error(`${reason}${remedy}`);
}
