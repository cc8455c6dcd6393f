/** All networks by torchvision's names. */
import { checkText, invalidOption, type Options } from '../../base/checks.js';
import { oneOf, optional, readOptions, type Fields } from '../../base/options.js';
import { nearestNames } from '../../base/nearest-names.js';
import { unknownName } from '../hub/known-models.js';
import { ARCHITECTURES } from '../../onnx/networks/families/all-families.js';
import type { Architecture, Task } from '../../onnx/networks/architecture.js';

/** Options of {@link listModels}. */
export interface ListOptions {
  /**
   * Only networks of this task.
   * @default undefined, which is all
   */
  readonly task: Task | undefined;
}

export const TASKS: readonly Task[] = ['classification', 'segmentation', 'detection', 'video'];

const LIST_FIELDS: Fields<ListOptions> = { task: optional(oneOf(TASKS, 'classification')) };

/** Twice the longest name, and more: longer patterns only cost time. */
const MOST_PATTERN = 64;

/**
 * Lists the networks that {@link createModel} builds, under torchvision's names.
 *
 * @param pattern - Only names that match: `*` stands for any characters, `?` for one, as in torchvision's `list_models(include=…)`.
 * @param given - See {@link ListOptions}.
 * @returns Names in alphabetical order.
 * @throws {@link TapirError} `OPTION_INVALID`.
 *
 * @example
 * ```ts
 * import { listModels } from 'onnx-tapir/zoo';
 *
 * console.log(listModels('resnet*')); // ['resnet101', 'resnet152', 'resnet18', 'resnet34', 'resnet50']
 * console.log(listModels('*', { task: 'segmentation' }).length); // 6
 * ```
 */
export function listModels(pattern = '*', given: Options<ListOptions> = {}): string[] {
  const { task } = readOptions(LIST_FIELDS, given, 'listModels');
  if (checkText('pattern', pattern).length > MOST_PATTERN)
    throw invalidOption('pattern', `a text of at most ${MOST_PATTERN} characters`, pattern);
  const literal = pattern.replaceAll(/\*+/g, '*').replace(/[.+^${}()|[\]\\]/g, '\\$&');
  const matches = new RegExp(`^${literal.replaceAll('*', '.*').replaceAll('?', '.')}$`, 'is');
  const isAsked = ([name, architecture]: [string, Architecture]): boolean =>
    matches.test(name) && (task === undefined || taskOf(architecture) === task);
  return [...ARCHITECTURES]
    .filter(isAsked)
    .map(([name]) => name)
    .toSorted();
}

/** What a network is trained for. */
export function taskOf({ task = 'classification' }: Architecture): Task {
  return task;
}

/** Finds a network by its name. Throws `NAME_NOT_FOUND` with the nearest names. */
export function findArchitecture(name: string): Architecture {
  const found = ARCHITECTURES.get(checkText('name', name));
  if (found) return found;
  const nearest = nearestNames(name, ARCHITECTURES.keys());
  const advice = 'listModels() and "tapir models create --list" list them';
  throw unknownName('no network is called', name, nearest, advice);
}
