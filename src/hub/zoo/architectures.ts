/** All networks by torchvision's names. */
import { TapirError } from '../../base/errors.js';
import { checkText } from '../../base/checks.js';
import { nearestNames } from '../../base/nearest-names.js';
import { ALEXNETS } from './families/alexnet.js';
import { CONVNEXTS } from './families/convnext.js';
import { DENSENETS } from './families/densenet.js';
import { EFFICIENTNETS } from './families/efficientnet.js';
import { INCEPTIONS } from './families/inception.js';
import { MAXVITS } from './families/maxvit.js';
import { MNASNETS } from './families/mnasnet.js';
import { MOBILENETS } from './families/mobilenet.js';
import { REGNETS } from './families/regnet.js';
import { RESNETS } from './families/resnet.js';
import { SHUFFLENETS } from './families/shufflenet.js';
import { SQUEEZENETS } from './families/squeezenet.js';
import { SWINS } from './families/swin.js';
import { VGGS } from './families/vgg.js';
import { VITS } from './families/vit.js';
import type { Architecture, Family } from './network/architecture.js';

const FAMILIES: readonly Family[] = [
  ALEXNETS,
  CONVNEXTS,
  DENSENETS,
  EFFICIENTNETS,
  INCEPTIONS,
  MAXVITS,
  MNASNETS,
  MOBILENETS,
  REGNETS,
  RESNETS,
  SHUFFLENETS,
  SQUEEZENETS,
  SWINS,
  VGGS,
  VITS,
];
const ARCHITECTURES = new Map<string, Architecture>(FAMILIES.flatMap((family) => Object.entries(family)));

/**
 * Lists the networks that {@link createModel} builds, under torchvision's names.
 *
 * @param pattern - Only names that match: `*` stands for any characters, `?` for one, as in torchvision's `list_models(include=…)`.
 * @returns Names in alphabetical order.
 *
 * @example
 * ```ts
 * import { listModels } from 'onnx-tapir';
 *
 * console.log(listModels('resnet*')); // ['resnet101', 'resnet152', 'resnet18', 'resnet34', 'resnet50']
 * ```
 */
export function listModels(pattern = '*'): string[] {
  const literal = checkText('pattern', pattern).replace(/[.+^${}()|[\]\\]/g, '\\$&');
  const matches = new RegExp(`^${literal.replaceAll('*', '.*').replaceAll('?', '.')}$`, 'is');
  return [...ARCHITECTURES.keys()].filter((name) => matches.test(name)).toSorted();
}

/**
 * Finds a network by its name.
 *
 * @throws {@link TapirError} `NAME_NOT_FOUND` with the nearest names.
 */
export function findArchitecture(name: string): Architecture {
  const found = ARCHITECTURES.get(checkText('name', name));
  if (found) return found;
  const nearest = nearestNames(name, ARCHITECTURES.keys());
  const hint = nearest.length > 0 ? `; nearest: ${nearest.join(', ')}` : '';
  throw new TapirError(
    'NAME_NOT_FOUND',
    `no network is called "${name}"${hint} (listModels() and "tapir create --list" list them)`,
    { details: { names: [{ request: name, nearest }] } },
  );
}
