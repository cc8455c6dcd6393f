/** Which files of a repository belong to a model. */
import { posix } from 'node:path';
import { invalidOption } from '../../base/checks.js';
import { MODULES_FILE, TRANSFORM_FILES } from '../../base/config-files.js';
import { TapirError } from '../../base/errors.js';
import { nearestNames } from '../../base/nearest-names.js';
import { formatReference, isModelFile, type RepositoryReference } from './repository-reference.js';

/** The model file that was chosen. */
export interface ChosenModel {
  readonly name: string;
  /** Whether more files in the repository could not change the choice. */
  readonly isSure: boolean;
}

/** The preprocessing and the names of a model, and its tokenizer. */
const COMPANIONS: ReadonlySet<string> = new Set([
  ...TRANSFORM_FILES,
  MODULES_FILE,
  'tokenizer.json',
  'tokenizer_config.json',
  'special_tokens_map.json',
  'added_tokens.json',
  'vocab.json',
  'vocab.txt',
  'merges.txt',
]);

/** Tells the files of image models, the best match first. Immich keeps the two halves of CLIP in separate folders. */
const IS_LIKELY: readonly ((path: string, stem: string) => boolean)[] = [
  (path, stem) => stem === 'vision_model' || /(?:^|\/)visual\/model$/.test(path),
  (_path, stem) => stem === 'model',
  (path, stem) => !/^(?:text|decoder|prompt)/.test(stem) && !/(?:^|\/)textual\//.test(path),
];

/** Endings of files that hold the same network in another precision. */
const IS_VARIANT =
  /^(.+)_(?:fp16|int8|uint8|quantized|q8|q4|q4f16|bnb4|q2|q2f16|q1|q1f16|o[1-4]|qint8\w*|quint8\w*)$/;
const VARIANT_FOLDER = /\/(?:fp16|int8|uint8|quantized|q8|q4|q4f16|bnb4)(?=\/[^/]+$)/;

/**
 * Chooses the model file: the stated one; else the image half (`vision_model.onnx`, `visual/model.onnx`), else `model.onnx`, else
 * the only one. The variant's ending is part of each name. Throws `NAME_NOT_FOUND`; `OPTION_INVALID` if there are several.
 */
export function chooseModelFile(names: readonly string[], reference: RepositoryReference): ChosenModel {
  const { file, variant } = reference;
  const models = names.filter((name) => name.endsWith('.onnx'));
  if (file !== undefined) {
    if (isModelFile(file) && names.includes(file)) return { name: file, isSure: true };
    throw notFound(reference, file, models);
  }
  const fitting = models.flatMap((name) => {
    const plain = plainName(name, variant);
    return plain === undefined ? [] : [{ name, plain }];
  });
  for (const [rank, isLikely] of IS_LIKELY.entries()) {
    const found = fitting.filter(({ plain }) => isLikely(plain, posix.basename(plain)));
    if (found.length === 1) return { name: found[0]!.name, isSure: rank === 0 };
    if (found.length > 1)
      throw several(
        reference,
        found.map(({ name }) => name),
      );
  }
  throw notFound(reference, variant === undefined ? 'model.onnx' : `model_${variant}.onnx`, models);
}

/** The path without `.onnx` and without the variant; undefined for a file of another variant. */
function plainName(name: string, variant: string | undefined): string | undefined {
  const path = name.slice(0, -'.onnx'.length);
  if (variant === undefined) return IS_VARIANT.test(path) || VARIANT_FOLDER.test(path) ? undefined : path;
  if (path.endsWith(`_${variant}`)) return path.slice(0, -variant.length - 1);
  const [folder, stem] = [posix.dirname(path), posix.basename(path)];
  return posix.basename(folder) === variant ? posix.join(posix.dirname(folder), stem) : undefined;
}

function notFound(reference: RepositoryReference, request: string, models: readonly string[]): TapirError {
  const { repository } = reference;
  const nearest = nearestNames(request, models);
  const there = models.length === 0 ? 'it has no .onnx file' : `it has ${shorten(models)}`;
  const wanted = reference.variant === undefined ? `file "${request}"` : `variant "${reference.variant}"`;
  return new TapirError('NAME_NOT_FOUND', `${repository} has no model ${wanted}: ${there}`, {
    details: { names: [{ request, nearest }] },
  });
}

function several(reference: RepositoryReference, candidates: readonly string[]): TapirError {
  const example = formatReference({ ...reference, file: candidates[0], variant: undefined });
  return invalidOption(
    'file',
    `one of the model files of ${reference.repository} (option "file", or "${example}"): ${shorten(candidates)}`,
    reference.file,
  );
}

function shorten(names: readonly string[]): string {
  const most = 20;
  return names.length <= most
    ? names.join(', ')
    : `${names.slice(0, most).join(', ')} and ${names.length - most} more`;
}

/** Lists the weights beside a model file, by the names that exporters give them: `model.onnx_data`, `model.onnx.data`, `model.data`. */
export function listWeightFiles(names: readonly string[], model: string): string[] {
  const beside = new Set([`${model}.data`, `${model.slice(0, -'.onnx'.length)}.data`]);
  return names.filter(
    (name) => beside.has(name) || (name.startsWith(`${model}_data`) && /_data(?:_\d+)?$/.test(name)),
  );
}

/** Lists the configuration and tokenizer files in the model's folder and in the folders above it. */
export function listCompanions(names: readonly string[], model: string): string[] {
  const folders = new Set<string>();
  for (let at = posix.dirname(model); ; at = posix.dirname(at)) {
    folders.add(at);
    if (at === '.') break;
  }
  const own = new Set([`${model}.tapir.json`, `${model}.transform.json`, `${model}.names.json`]);
  // sentence-transformers keeps the parts of a model in numbered folders.
  const placeOf = (name: string): string => posix.dirname(name).replace(/(?:^|\/)0_\w+$/, '') || '.';
  return names.filter(
    (name) => own.has(name) || (folders.has(placeOf(name)) && COMPANIONS.has(posix.basename(name))),
  );
}
