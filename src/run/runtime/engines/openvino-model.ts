/** How OpenVINO gets a model: its bytes with weights in mapped memory, a file, or what an earlier session has compiled. */
import { rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { checkUnchanged } from '../../../base/file-stamp.js';
import { ADDRESS_DIGITS, type LaneDescription } from '../lanes/protocol.js';
import type { Address } from './native/koffi.js';
import type { MappedFile } from './native/map-file.js';
import type { OpenVino } from './native/openvino-api.js';

/** A compiled model, and the memory that it uses. */
export interface CompiledModel {
  readonly compiled: Address;
  /** What was imported: the compiled model uses its memory. */
  readonly file: MappedFile | undefined;
}

/** Compiles the model of a lane, or opens what was compiled before. */
export function compileModel(api: OpenVino, core: Address, description: LaneDescription): CompiledModel {
  const { modelFile, compiledFile } = description;
  if (compiledFile !== undefined) {
    const file = api.mapFile(compiledFile);
    try {
      return { compiled: api.importFile(core, file), file };
    } catch (error) {
      file.free();
      throw error;
    }
  }
  const model = modelFile === undefined ? readModel(api, core, description) : api.readFile(core, modelFile);
  try {
    return { compiled: api.compile(core, model), file: undefined };
  } finally {
    api.freeModel(model);
    if (modelFile !== undefined) removeFolder(dirname(modelFile));
  }
}

/** Frees a compiled model, and the memory that it uses. */
export function freeModel(api: OpenVino, { compiled, file }: CompiledModel): void {
  api.freeCompiled(compiled);
  file?.free();
}

/** Reads a model from its bytes, with weights in the file that it was cut from: the library copies them out of mapped memory. */
function readModel(
  api: OpenVino,
  core: Address,
  { model, weightsFile, offsetsAt = [] }: LaneDescription,
): Address {
  if (!weightsFile) return api.readBytes(core, model);
  // Past the end of a file that was cut short, the process would crash.
  checkUnchanged(weightsFile);
  const file = api.mapFile(weightsFile.path);
  try {
    const text = Buffer.from(model.buffer, model.byteOffset, model.byteLength);
    for (const at of offsetsAt) {
      const address = file.address + BigInt(text.toString('latin1', at, at + ADDRESS_DIGITS));
      text.write(String(address).padStart(ADDRESS_DIGITS, '0'), at, 'latin1');
    }
    return api.readBytes(core, model);
  } finally {
    file.free();
  }
}

/** Removes the folder of a temporary model. What is mapped stays readable; Windows refuses, and the cache removes it later. */
function removeFolder(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    // See above.
  }
}
