/** Providers of ONNX Runtime that are loaded at run time: where their libraries are. */
import { existsSync } from 'node:fs';
import { basename, isAbsolute, join } from 'node:path';
import { ENGINE_LIBRARIES, engineFolder, type InstallablePlugin } from '../../../base/engine-packages.js';
import { namesIn } from '../../../base/folder-names.js';

/** A plugin that `tapir engines install` can install. */
interface KnownPlugin {
  readonly installed: InstallablePlugin;
  /** The file of its library. */
  readonly library: RegExp;
  /** Libraries beside it that the system's loader does not find by itself, in the order in which they can be loaded. */
  readonly first: readonly RegExp[];
}

const PLUGINS: Readonly<Record<string, KnownPlugin>> = {
  webgpu: { installed: 'webgpu-plugin', library: /^(?:lib)?onnxruntime_providers_webgpu\./, first: [] },
  openvino: {
    installed: 'openvino-plugin',
    library: /^(?:lib)?onnxruntime_providers_openvino_plugin\.(?:so|dll)$/,
    first: [],
  },
  'tensorrt-rtx': {
    installed: 'tensorrt-rtx-plugin',
    library: /^(?:lib)?onnxruntime_providers_nv_tensorrt_rtx\./,
    first: [/cudart/, /tensorrt_rtx(?:_|\.so|\.dll)/, /onnxparser_rtx/],
  },
};

/** The names in `plugin:NAME`. */
export const PLUGIN_NAMES: readonly string[] = Object.keys(PLUGINS);

/** Whether a text is the name of a plugin, or a path of a library. */
export function isPlugin(name: string): boolean {
  return PLUGIN_NAMES.includes(name) || isAbsolute(name);
}

/** The name of a plugin that is known, by its name or by its library; undefined for another one. */
export function knownPlugin(plugin: string): string | undefined {
  return PLUGIN_NAMES.find((name) => name === plugin || PLUGINS[name]!.library.test(basename(plugin)));
}

/** The libraries of a plugin. */
export interface PluginLibraries {
  /** The library that ONNX Runtime is given. */
  readonly path: string;
  /** To be loaded before it. */
  readonly first: readonly string[];
}

/** Finds the library of a plugin; a reason where it is not there. */
export function findPlugin(name: string): PluginLibraries | { readonly reason: string } {
  const known = PLUGINS[name];
  if (!known) return existsSync(name) ? { path: name, first: [] } : { reason: `"${name}" does not exist` };
  const folder = join(engineFolder(known.installed), ENGINE_LIBRARIES);
  const names = namesIn(folder);
  const library = names.find((file) => known.library.test(file));
  if (library === undefined)
    return { reason: `it is not installed; "tapir engines install ${known.installed}" brings it` };
  const others = names.filter((file) => file !== library);
  const first = known.first.flatMap((part) => others.filter((file) => part.test(file)));
  return { path: join(folder, library), first: first.map((file) => join(folder, file)) };
}

/** The plugins that are installed. */
export function installedPlugins(): string[] {
  return PLUGIN_NAMES.filter((name) => 'path' in findPlugin(name));
}
