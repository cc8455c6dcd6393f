/** Session options for ONNX Runtime's C API: the same as for its Node binding. */
import { knownPlugin } from '../capabilities/plugins.js';
import { savingOptions } from '../lanes/prepared-files.js';
import type { ResolvedDevice } from '../lanes/device.js';
import type { LaneDescription } from '../lanes/protocol.js';
import { cudaTexts, type SessionOptions } from '../lanes/session-options.js';
import { Handles } from './native/handles.js';
import type { Address } from './native/koffi.js';
import type { OrtApi } from './native/onnxruntime-api.js';
import { texts } from './native/texts.js';
import { appendPlugin } from './plugin-devices.js';
import { configEntries } from './session-entries.js';

const LEVELS = { disabled: 0, basic: 1, extended: 2, layout: 3, all: 99 } as const;
const MODES = { sequential: 0, parallel: 1 } as const;

/** Sets the options of a session that is to be opened. */
export function setOptions(
  api: OrtApi,
  env: Address,
  options: Address,
  description: LaneDescription,
  device: ResolvedDevice,
): void {
  const { threads } = device;
  const { session, saveTo, profileTo, streams = 1 } = description;
  api.SetSessionGraphOptimizationLevel(options, LEVELS[session.graphOptimizationLevel]);
  api.SetSessionExecutionMode(options, MODES[session.executionMode]);
  api.SetSessionLogSeverityLevel(options, session.logSeverityLevel);
  if (session.enableCpuMemArena) api.EnableCpuMemArena(options);
  else api.DisableCpuMemArena(options);
  if (session.enableMemPattern) api.EnableMemPattern(options);
  else api.DisableMemPattern(options);
  if (session.interOpNumThreads > 0) api.SetInterOpNumThreads(options, session.interOpNumThreads);
  // A run computes on its caller's thread and on those of the session, which all runs share.
  if (threads > 0) api.SetIntraOpNumThreads(options, streams * (threads - 1) + 1);
  if (saveTo) api.SetOptimizedModelFilePath(options, savingOptions(saveTo).optimizedModelFilePath);
  if (profileTo !== undefined) api.EnableProfiling(options, profileTo);
  for (const [key, value] of flatten(configEntries(description)))
    api.AddSessionConfigEntry(options, key, value);
  if (device.type === 'cuda') appendCuda(api, options, device, session);
  if (device.type === 'plugin')
    appendPlugin(api, options, { env, device, options: pluginOptions(device, description) });
}

/** Options of the CUDA provider, by the library's names. */
export function cudaOptions(
  { id }: ResolvedDevice,
  session: Pick<SessionOptions, 'cuda'>,
): Readonly<Record<string, string>> {
  return { device_id: String(id), ...cudaTexts(session) };
}

/** Operators that the provider of WebGPU must leave to the CPU. */
function pluginOptions(
  { plugin }: ResolvedDevice,
  { hostNodes = [] }: LaneDescription,
): Readonly<Record<string, string>> {
  const isWebGpu = plugin !== undefined && knownPlugin(plugin) === 'webgpu';
  return isWebGpu && hostNodes.length > 0 ? { forceCpuNodeNames: hostNodes.join('\n') } : {};
}

function appendCuda(api: OrtApi, options: Address, device: ResolvedDevice, session: SessionOptions): void {
  const handles = new Handles();
  try {
    const provider = handles.own(api.CreateCUDAProviderOptions(), api.ReleaseCUDAProviderOptions);
    const given = Object.entries(cudaOptions(device, session));
    const [keys, values] = [0, 1].map((part) =>
      texts(
        api,
        given.map((pair) => pair[part]!),
      ),
    );
    api.UpdateCUDAProviderOptions(provider, keys!.addresses, values!.addresses, given.length);
    api.SessionOptionsAppendExecutionProvider_CUDA_V2(options, provider);
  } finally {
    handles.release();
  }
}

/** Nested entries as the library has them: `session.intra_op.allow_spinning`. */
function flatten(entries: Readonly<Record<string, unknown>>, prefix = ''): (readonly [string, string])[] {
  return Object.entries(entries).flatMap(([key, value]) =>
    typeof value === 'string'
      ? [[prefix + key, value] as const]
      : flatten(value as Record<string, unknown>, `${prefix}${key}.`),
  );
}
