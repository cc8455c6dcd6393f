/** All networks by torchvision's names. */
import { checkText, invalidOption } from '../base/checks.js';
import { nearestNames } from '../base/nearest-names.js';
import { unknownName } from '../hub/known-models.js';
import { ARCHITECTURES } from '../networks/families/all-families.js';
import type { Architecture } from '../networks/architecture.js';

/** Twice the longest name, and more: longer patterns only cost time. */
const MOST_PATTERN = 64;

/**
 * Lists the networks that {@link createModel} builds, under torchvision's names.
 *
 * @param pattern - Only names that match: `*` stands for any characters, `?` for one, as in torchvision's `list_models(include=…)`.
 * @returns Names in alphabetical order.
 *
 * @example
 * ```ts
 * import { listModels } from 'onnx-tapir/zoo';
 *
 * console.log(listModels('resnet*')); // ['resnet101', 'resnet152', 'resnet18', 'resnet34', 'resnet50']
 * ```
 */
export function listModels(pattern = '*'): string[] {
  if (checkText('pattern', pattern).length > MOST_PATTERN)
    throw invalidOption('pattern', `a text of at most ${MOST_PATTERN} characters`, pattern);
  const literal = pattern.replaceAll(/\*+/g, '*').replace(/[.+^${}()|[\]\\]/g, '\\$&');
  const matches = new RegExp(`^${literal.replaceAll('*', '.*').replaceAll('?', '.')}$`, 'is');
  return [...ARCHITECTURES.keys()].filter((name) => matches.test(name)).toSorted();
}

/** Finds a network by its name. Throws `NAME_NOT_FOUND` with the nearest names. */
export function findArchitecture(name: string): Architecture {
  const found = ARCHITECTURES.get(checkText('name', name));
  if (found) return found;
  const nearest = nearestNames(name, ARCHITECTURES.keys());
  const advice = 'listModels() and "tapir create --list" list them';
  throw unknownName('no network is called', name, nearest, advice);
}
