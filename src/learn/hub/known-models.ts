/** The list of known models, `models/manifest.json` of this package: their addresses, licences, checksums and useful names. */
import { invalidOption, isPlainObject } from '../../base/checks.js';
import { reasonOf, TapirError } from '../../base/errors.js';
import { packageFile } from '../../base/package.js';
import { nearestNames } from '../../base/nearest-names.js';
import { readJson } from '../../base/read-json.js';

/** A file of a known model: the graph, or external weights. */
export interface KnownModelFile {
  /** Name of the file in the cache. A graph refers to its external weights by this name. */
  readonly name: string;
  readonly url: string;
  /** Null if the exact size is unknown. */
  readonly sizeBytes: number | null;
  /** 64 hexadecimal digits. Null if it is unknown: the first download is then trusted, and its SHA-256 recorded. */
  readonly sha256: string | null;
}

/** The name of a preset or of torchvision's weights, or the fields of a configuration file. */
export type KnownTransform = string | Readonly<Record<string, unknown>>;

/** A model that can be downloaded by name. */
export interface KnownModel {
  readonly name: string;
  readonly description: string;
  /** The model file, followed by its external weights. */
  readonly files: readonly KnownModelFile[];
  /** The licence of the weights: its SPDX identifier and its text. */
  readonly licence: { readonly spdx: string; readonly url: string };
  /**
   * The transform that the model was trained with: anything that `transformFromConfig` reads. Null in a list that does not state
   * it, and for a model of a repository, whose configuration files lie beside the model.
   */
  readonly transform: KnownTransform | null;
  /** Height and width of the input in pixels; null if there are several, and for a model of a repository. */
  readonly inputSize: readonly [height: number, width: number] | null;
  /** Useful nodes to return. */
  readonly nodes: readonly { readonly name: string; readonly meaning: string }[];
  /** What to know before you choose this model; may be empty. */
  readonly note: string;
  /** The page that describes the model. */
  readonly source: string;
}

/** Names become folders and files, so only characters that every system allows. */
const IS_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;
const IS_SHA256 = /^[0-9a-f]{64}$/;

/** Reads a list in the format of this package's list, which is the default. Throws `OPTION_INVALID` for another file. */
export async function readModelList(
  path: string = packageFile('models/manifest.json'),
): Promise<KnownModel[]> {
  const wrong = (reason: string): Error =>
    invalidOption('manifest', `a readable list of models (${reason})`, path);
  const list = readJson(path, wrong);
  if (list === undefined) throw wrong('there is no such file');
  try {
    const models = isPlainObject(list) && Array.isArray(list['models']) ? list['models'] : null;
    if (models === null) throw new Error('it has no array "models"');
    const read = models.map(readModel);
    const names = new Set(read.map(({ name }) => name.toLowerCase()));
    if (names.size < read.length) throw new Error('two models have the same name');
    return read;
  } catch (error) {
    throw wrong(reasonOf(error));
  }
}

/** Checks a model that a caller describes. Throws `OPTION_INVALID`. */
export function checkKnownModel(value: unknown): KnownModel {
  try {
    return readModel(value, 0);
  } catch (error) {
    throw invalidOption('model', `the name or the description of a known model (${reasonOf(error)})`, value);
  }
}

/** Checks a file that a caller describes, for a folder of a name. Throws `OPTION_INVALID`. */
export function checkFile(folder: string, file: KnownModelFile): KnownModelFile {
  try {
    return readFileEntry(file, folder);
  } catch (error) {
    throw invalidOption('file', `a file to download (${reasonOf(error)})`, file);
  }
}

/** Finds a model by its name. Throws `NAME_NOT_FOUND` with the nearest names. */
export function findKnownModel(models: readonly KnownModel[], name: string): KnownModel {
  const found = models.find((model) => model.name === name);
  if (found) return found;
  const names = models.map((model) => model.name);
  throw unknownName(
    'no known model is called',
    name,
    nearestNames(name, names),
    '"tapir models list" lists them',
  );
}

/** The error for a name that is not in a list; `advice` says where the list is. */
export function unknownName(
  problem: string,
  request: string,
  nearest: readonly string[],
  advice: string,
): TapirError<'NAME_NOT_FOUND'> {
  const hint = nearest.length > 0 ? `; nearest: ${nearest.join(', ')}` : '';
  return new TapirError('NAME_NOT_FOUND', `${problem} "${request}"${hint} (${advice})`, {
    details: { names: [{ request, nearest }] },
  });
}

function readModel(value: unknown, index: number): KnownModel {
  if (!isPlainObject(value)) throw new Error(`model ${index} is not an object`);
  const name = textOf(value, 'name', `model ${index}`);
  if (!IS_NAME.test(name)) throw new Error(`the name of model ${index} cannot be a file name`);
  const { licence, files, nodes, transform, inputSize } = value;
  if (!isPlainObject(licence)) throw new Error(`${name} has no licence`);
  if (!Array.isArray(files) || files.length === 0) throw new Error(`${name} has no files`);
  const read = files.map((file) => readFileEntry(file, name));
  if (new Set(read.map((file) => file.name.toLowerCase())).size < read.length)
    throw new Error(`two files of ${name} have the same name`);
  return {
    name,
    description: textOf(value, 'description', name),
    files: read,
    licence: { spdx: textOf(licence, 'spdx', name), url: textOf(licence, 'url', name) },
    transform: transform === null || isPlainObject(transform) ? transform : textOf(value, 'transform', name),
    inputSize: readSize(inputSize, name),
    nodes: Array.isArray(nodes) ? nodes.map((node) => readNode(node, name)) : [],
    note: typeof value['note'] === 'string' ? value['note'] : '',
    source: textOf(value, 'source', name),
  };
}

function readFileEntry(value: unknown, model: string): KnownModelFile {
  if (!isPlainObject(value)) throw new Error(`a file of ${model} is not an object`);
  const name = textOf(value, 'name', model);
  const { sizeBytes, sha256 } = value;
  if (!IS_NAME.test(name)) throw new Error(`"${name}" of ${model} cannot be a file name`);
  if (sizeBytes !== null && !(Number.isSafeInteger(sizeBytes) && Number(sizeBytes) > 0))
    throw new Error(`the size of ${name} is neither a number of bytes nor null`);
  if (sha256 !== null && !(typeof sha256 === 'string' && IS_SHA256.test(sha256)))
    throw new Error(`the SHA-256 of ${name} is neither 64 hexadecimal digits nor null`);
  const url = textOf(value, 'url', name);
  if (!URL.canParse(url)) throw new Error(`the address of ${name} cannot be read`);
  return { name, url, sizeBytes: sizeBytes === null ? null : Number(sizeBytes), sha256 };
}

function readNode(value: unknown, model: string): KnownModel['nodes'][number] {
  if (!isPlainObject(value)) throw new Error(`a node of ${model} is not an object`);
  return { name: textOf(value, 'name', model), meaning: textOf(value, 'meaning', model) };
}

function readSize(value: unknown, model: string): readonly [number, number] | null {
  if (value === null) return null;
  const [height, width] = Array.isArray(value) ? (value as unknown[]) : [];
  if (typeof height === 'number' && typeof width === 'number') return [height, width];
  throw new Error(`${model} has no inputSize`);
}

function textOf(record: Readonly<Record<string, unknown>>, key: string, where: string): string {
  const text = record[key];
  if (typeof text === 'string' && text !== '') return text;
  throw new Error(`"${key}" of ${where} is missing`);
}
