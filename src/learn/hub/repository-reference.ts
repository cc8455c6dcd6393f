/** How users name a repository of the Hugging Face hub: `hf:ORG/REPO[@REVISION][#FILE]`. */
import { invalidOption } from '../../base/checks.js';
import { isPortableName } from '../../base/files/portable-name.js';

/** A repository at a revision, and the wanted model in it. */
export interface RepositoryReference {
  /** `ORG/REPO`, or `REPO` for the hub's oldest models. */
  readonly repository: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
  /** Path of the model file in the repository; undefined to choose one. */
  readonly file: string | undefined;
  /** Ending of the wanted file: `fp16` for `model_fp16.onnx`; undefined for float32. */
  readonly variant: string | undefined;
}

const PREFIX = 'hf:';
const FORM = /^hf:(?<repository>[^@#]+)(?:@(?<revision>[^#]+))?(?:#(?<part>.+))?$/;
const IS_REPOSITORY = /^\w[\w.-]{0,95}(?:\/\w[\w.-]{0,95})?$/;
const IS_VARIANT = /^\w+$/;
/** Spellings of variants in other tools. The undefined one is the file without an ending. */
const VARIANTS: Readonly<Record<string, string | undefined>> = {
  fp32: undefined,
  float32: undefined,
  float16: 'fp16',
  q8: 'quantized',
};

/** Whether a text names a repository of the hub. */
export function isRepositoryReference(text: string): text is `hf:${string}` {
  return text.startsWith(PREFIX);
}

/**
 * Reads a reference. What follows `#` is a file if it ends in `.onnx` or `.safetensors`, else a variant; `given` states them apart from the
 * reference. Throws `OPTION_INVALID`.
 */
export function parseRepositoryReference(
  text: string,
  given: { readonly file?: string | undefined; readonly variant?: string | undefined } = {},
): RepositoryReference {
  const { repository = '', revision = 'main', part } = FORM.exec(text)?.groups ?? {};
  const isRepository = IS_REPOSITORY.test(repository) && !/--|\.\.|\.(?:\/|$)/.test(repository);
  if (!isRepository || !isRelativePath(revision))
    throw invalidOption(
      'model',
      '"hf:ORG/REPO", "hf:ORG/REPO@REVISION" or "hf:ORG/REPO@REVISION#FILE"',
      text,
    );
  const isFile = part !== undefined && isModelFile(part);
  const file = given.file ?? (isFile ? part : undefined);
  const variant = given.variant ?? (isFile ? undefined : part);
  if (part !== undefined && (given.file ?? given.variant) !== undefined)
    throw invalidOption('model', 'given without "#" where a file or a variant is stated', text);
  if (file !== undefined && variant !== undefined)
    throw invalidOption('variant', 'left out where a file is stated', variant);
  if (file !== undefined && !isRelativePath(file))
    throw invalidOption('file', 'the path of a file in the repository', file);
  if (variant !== undefined && !IS_VARIANT.test(variant))
    throw invalidOption('variant', 'the ending of a file, such as "fp16", "quantized" or "q4"', variant);
  const isOtherName = variant !== undefined && Object.hasOwn(VARIANTS, variant);
  return { repository, revision, file, variant: isOtherName ? VARIANTS[variant] : variant };
}

/** Whether a file holds a model, or the weights of one that can be built. */
export function isModelFile(name: string): boolean {
  return /\.(?:onnx|safetensors)$/.test(name);
}

/** Formats a reference as users write it. */
export function formatReference({ repository, revision, file, variant }: RepositoryReference): string {
  const part = file ?? variant;
  return `${PREFIX}${repository}${revision === 'main' ? '' : `@${revision}`}${part === undefined ? '' : `#${part}`}`;
}

/** Whether a name of the hub can be a path below a folder on every system. */
export function isRelativePath(name: string): boolean {
  return name.length <= 512 && name.split('/').every(isPortableName);
}
