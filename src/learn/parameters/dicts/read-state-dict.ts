/** Reading the weights of a network from the files in which torch and Hugging Face publish them. */
import { resolve } from 'node:path';
import { checkPath, checkText, type Options } from '../../../base/checks.js';
import { optional, readOptions, type Fields } from '../../../base/options.js';
import { readSafetensors, readShardedSafetensors } from '../safetensors/safetensors.js';
import { stateDict, type StateContent, type StateDict } from '../state/state-dict.js';
import { StateFile, invalidState } from '../state/state-file.js';
import { readTorchLegacy } from '../torch/torch-legacy.js';
import { readTorchZip } from '../torch/torch-zip.js';

/** Options of {@link readStateDict}. */
export interface ReadStateOptions {
  /**
   * Which state dict of a `.pth` checkpoint to read, for example `'state_dict_ema'`. Left out, the checkpoint must have only one.
   * @default undefined
   */
  readonly key: string | undefined;
}

const READ_FIELDS: Fields<ReadStateOptions> = { key: optional(checkText) };

/**
 * Reads the names, dtypes and dims of the tensors in a file of weights. Values stay in the file until you read a tensor.
 *
 * @param path - A path or `file:` URL of a `.safetensors` file, of the index of a sharded one (`model.safetensors.index.json`, beside its
 * shards), or of a `.pth`, `.pt` or `.bin` file that torch.save wrote (as a zip, or as before torch 1.6). The file holds a state dict, or a
 * checkpoint with one under a key such as `state_dict` or `model`.
 * @param given - See {@link ReadStateOptions}.
 * @returns The tensors by name, in the order of the file. `notes` says what was left out.
 *
 * @remarks Nothing in a `.pth` file is ever executed. Its pickle may hold tensors, dicts, lists, numbers and texts; a file that
 * refers to anything else is refused, with the name of what it refers to. Every tensor is checked to lie in the file. The
 * checksums of a zip are checked when a tensor is read; other files have none.
 *
 * @throws {@link TapirError} `STATE_INVALID` if the file is missing, damaged, of another format, or has no tensors; `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { readStateDict } from 'onnx-tapir/parameters';
 *
 * const state = await readStateDict('resnet50.pth');
 * for (const [key, { dtype, dims }] of state) console.log(key, dtype, dims); // 'conv1.weight' 'float32' [64, 3, 7, 7], …
 * const weight = await state.get('fc.weight')?.read(); // { dtype: 'float32', dims: [1000, 2048], data: Float32Array }
 * ```
 */
export async function readStateDict(
  path: string | URL,
  given: Options<ReadStateOptions> = {},
): Promise<StateDict> {
  const { key } = readOptions(READ_FIELDS, given, 'readStateDict');
  const file = await StateFile.open(resolve(checkPath('path', path)));
  const content = await readContent(file, key);
  if (content.tensors.size === 0) throw invalidState(file.path, 'it has no tensors');
  return stateDict(file.path, content);
}

async function readContent(file: StateFile, key: string | undefined): Promise<StateContent> {
  const start = await file.read((bytes) => bytes.read(0, 512));
  const isIn = (at: number, text: string): boolean => start.toString('latin1', at, at + text.length) === text;
  const isIndex = /\.json$/i.test(file.path);
  const isSafetensors = !isIndex && (/\.safetensors$/i.test(file.path) || isIn(8, '{'));
  if (!isSafetensors && !isIndex) {
    if (isIn(0, 'PK')) return readTorchZip(file, key);
    if (isIn(0, '\x80')) return readTorchLegacy(file, key);
  }
  const refuse = (reason: string): Error => invalidState(file.path, reason);
  if (key !== undefined)
    throw refuse('the option "key" chooses a state dict in a .pth checkpoint; leave it out for other files');
  if (isSafetensors) return readSafetensors(file);
  if (isIndex) return readShardedSafetensors(file);
  if (isIn(257, 'ustar'))
    throw refuse(
      'it is a tar, the oldest format of torch; load it in torch and save it again, if you trust it: torch.load does not check such files',
    );
  if (isIn(0, '<')) throw refuse('it is a web page, not weights; download it again');
  throw refuse('it is neither safetensors nor what torch.save writes');
}
