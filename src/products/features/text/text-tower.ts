/** Where the text half of a pair of image and text models lies, and its configuration files. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { invalidOption, isPlainObject } from '../../../base/checks.js';
import { readJson } from '../../../base/read-json.js';
import { openModel, type OnnxModel } from '../../../run/model/open/open-model.js';
import { tokenInputsOf } from './tokenizer/token-inputs.js';
import { tokenizerInvalid, type TokenizerJson } from './tokenizer/tokenizer.js';

/** Names of image halves, and the names of the text halves that exporters put beside them: Hugging Face, Immich, and others. */
const HALVES: readonly (readonly [image: string, text: string])[] = [
  ['vision_model', 'text_model'],
  ['visual', 'textual'],
  ['image_encoder', 'text_encoder'],
];

/**
 * Opens the text tower of a model.
 *
 * @param path - A text tower, a model that holds both towers, or an image model with a text tower beside it (`onnx/vision_model.onnx` and
 * `onnx/text_model.onnx`, `visual/model.onnx` and `textual/model.onnx`).
 * @throws {@link TapirError} `OPTION_INVALID` if there is no text tower; those of {@link openModel}.
 */
export async function openTextTower(path: string): Promise<OnnxModel> {
  const tower = await findTextTower(path);
  if (tower) return tower;
  const expected = `the path of a text tower: "${basename(path)}" takes no tokens, and ${lookedFor(listTextTowers(resolve(path)))}`;
  throw invalidOption('textModel', expected, path);
}

/** Opens the text tower as {@link openTextTower} does; gives undefined if the model has no text tower. */
export async function findTextTower(path: string): Promise<OnnxModel | undefined> {
  const given = await openModel(path);
  if (tokenInputsOf(given.inputs) !== undefined) return given;
  const found = listTextTowers(resolve(path)).find((candidate) => existsSync(candidate));
  return found === undefined ? undefined : openModel(found);
}

/** Lists where the text tower of an image model may lie: with the ending of the image model's file (`_fp16`), else without. */
export function listTextTowers(path: string): string[] {
  const folder = dirname(path);
  const name = basename(path);
  const parent = basename(folder);
  const places = HALVES.flatMap(([image, text]) => {
    if (parent === image) return [join(dirname(folder), text, name)];
    if (!name.startsWith(image)) return [];
    return [join(folder, text + name.slice(image.length)), join(folder, `${text}.onnx`)];
  });
  return [...new Set(places)];
}

function lookedFor(candidates: readonly string[]): string {
  return candidates.length === 0
    ? 'its name does not say where its text tower would be'
    : `there is no ${candidates.map((candidate) => `"${candidate}"`).join(' or ')}`;
}

/** A configuration file, with the fields that its reader checks. */
export type JsonFields = Readonly<Record<string, unknown>>;

/** The files that say how text becomes tokens. */
export interface TokenizerFiles {
  /** Path of tokenizer.json. */
  readonly path: string;
  readonly tokenizer: TokenizerJson;
  /** tokenizer_config.json, over special_tokens_map.json; empty if both are missing. */
  readonly settings: JsonFields;
  /** The model's config.json; empty if it is missing. */
  readonly config: JsonFields;
}

/**
 * Reads the files of a tokenizer: each from the model's folder, else from the folder above it.
 *
 * @param place - A model file, or a folder that holds the files.
 * @throws {@link TapirError} `TOKENIZER_INVALID` without a tokenizer.json, and for a file that is no JSON.
 */
export function readTokenizerFiles(place: string): TokenizerFiles {
  const folder = isFolder(place) ? resolve(place) : dirname(resolve(place));
  const folders = [folder, dirname(folder)];
  const read = (name: string): { readonly path: string; readonly fields: JsonFields } | undefined => {
    for (const path of folders.map((one) => join(one, name))) {
      const fields = readFields(path);
      if (fields) return { path, fields };
    }
    return undefined;
  };
  const found = read('tokenizer.json');
  if (!found) throw tokenizerInvalid(join(folder, 'tokenizer.json'), 'it is missing, here and one folder up');
  const { path, fields: tokenizer } = found;
  if (!isPlainObject(tokenizer['model'])) throw tokenizerInvalid(path, 'it has no section "model"');
  const added = tokenizer['added_tokens'] ?? [];
  if (!Array.isArray(added) || !added.every(isAddedToken))
    throw tokenizerInvalid(path, 'its section "added_tokens" is no list of tokens');
  return {
    path,
    tokenizer: tokenizer as unknown as TokenizerJson,
    settings: { ...read('special_tokens_map.json')?.fields, ...read('tokenizer_config.json')?.fields },
    config: read('config.json')?.fields ?? {},
  };
}

function isFolder(place: string): boolean {
  try {
    readdirSync(place);
    return true;
  } catch {
    return false;
  }
}

function isAddedToken(token: unknown): boolean {
  return (
    isPlainObject(token) &&
    typeof token['content'] === 'string' &&
    Number.isSafeInteger(token['id']) &&
    ['single_word', 'lstrip', 'rstrip', 'normalized'].every((flag) => typeof token[flag] === 'boolean')
  );
}

/** Reads a JSON object; undefined only if there is no such file. */
function readFields(path: string): JsonFields | undefined {
  const value = readJson(path, (reason, cause) => tokenizerInvalid(path, reason, cause));
  if (value === undefined || isPlainObject(value)) return value;
  throw tokenizerInvalid(path, 'it is no JSON object');
}
