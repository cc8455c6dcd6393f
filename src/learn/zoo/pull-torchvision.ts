/** torchvision's trained weights: the checkpoint is downloaded and checked, and the ONNX file is built of it, without Python. */
import { dirname, join } from 'node:path';
import { checkText, invalidOption, type Options } from '../../base/checks.js';
import type { TapirError } from '../../base/errors.js';
import { nearestNames } from '../../base/nearest-names.js';
import { optional, readOptions, type Fields } from '../../base/options.js';
import { packageFile } from '../../base/package.js';
import { readJson } from '../../base/read-json.js';
import { DOWNLOAD_FIELDS, type DownloadOptions } from '../hub/download-file.js';
import { unknownName, type KnownModel } from '../hub/known-models.js';
import type { PulledModel } from '../hub/pulled-model.js';
import { ARCHITECTURES } from '../../onnx/networks/families/all-families.js';
import { createModel } from './create-model.js';
import { buildInCache, pullCheckpoint } from './pull-weights.js';

/** Options of {@link pullTorchvision}. */
export interface PullTorchvisionOptions extends DownloadOptions {
  /**
   * Folder of downloaded models; `models` in this package's cache folder if left out.
   * @default undefined
   */
  readonly folder: string | undefined;
  /**
   * Another list of weights, in the format of this package's `models/torchvision-weights.json`: for a mirror, for example.
   * @default undefined
   */
  readonly manifest: string | undefined;
}

export const PULL_TORCHVISION_FIELDS: Fields<PullTorchvisionOptions> = {
  folder: optional(checkText),
  manifest: optional(checkText),
  ...DOWNLOAD_FIELDS,
};

/** models/torchvision-weights.json */
interface WeightsTable {
  readonly baseUrl: string;
  readonly networks: Readonly<Record<string, NetworkWeights>>;
}

interface NetworkWeights {
  /** What it is for, where that is not classification. */
  readonly task?: string;
  /** The name of torchvision's enumeration. */
  readonly enum: string;
  readonly default: string;
  readonly files: Readonly<Record<string, string>>;
  /** Sizes of images, where the network takes one only and it is not 224. */
  readonly imageSizes?: Readonly<Record<string, number>>;
  /** The epsilon of a detector's frozen norms, where name and classes mislead. */
  readonly normEps?: Readonly<Record<string, number>>;
  /** Where the network itself normalises in torchvision (`transform_input`, detectors), what does the same in front of the graph. */
  readonly transforms?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

const PREFIX = 'torchvision/';

/** Whether a text names weights of torchvision. */
export function isTorchvisionReference(text: string): boolean {
  return text.startsWith(PREFIX);
}

/**
 * Downloads trained weights of a torchvision network, and builds its ONNX file, with its transform beside it. What is there already is
 * not done again.
 *
 * @param reference - `torchvision/resnet50`, or with the name of the weights, `torchvision/resnet50@IMAGENET1K_V1`. Without it,
 * torchvision's `DEFAULT`.
 * @param given - See {@link PullTorchvisionOptions}.
 * @returns The entry, and the model file in the cache.
 * @throws {@link TapirError} `NAME_NOT_FOUND` with the nearest names; `DOWNLOAD_FAILED`; `CHECKSUM_MISMATCH` if the checkpoint is not the
 * one that its name states; `STATE_INVALID`; `OUTPUT_UNWRITABLE`; `OUTPUT_LOCKED`; `OPTION_INVALID`; the signal's reason.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor } from 'onnx-tapir';
 * import { pullTorchvision } from 'onnx-tapir/zoo';
 *
 * const { path } = await pullTorchvision('torchvision/resnet50');
 * const extractor = await createFeatureExtractor(path, { flatten: 'embedding' });
 * await extractor.close();
 * ```
 */
export async function pullTorchvision(
  reference: string,
  given: Options<PullTorchvisionOptions> = {},
): Promise<PulledModel> {
  const { manifest, ...options } = readOptions(PULL_TORCHVISION_FIELDS, given, 'pullTorchvision');
  const { model, network, imageSize, normEps } = await findTorchvisionModel(reference, manifest);
  const checkpoint = await pullCheckpoint(model.name, model.files[0]!, options);
  const path = join(dirname(checkpoint.path), `${network}.onnx`);
  return buildInCache(model, path, checkpoint, () =>
    createModel(network, { weights: checkpoint.path, imageSize, normEps }),
  );
}

/** Finds weights by their reference. Throws `NAME_NOT_FOUND`. */
export async function findTorchvisionModel(
  reference: string,
  manifest?: string,
): Promise<{
  readonly model: KnownModel;
  readonly network: string;
  readonly imageSize: number | undefined;
  readonly normEps: number | undefined;
}> {
  if (!isTorchvisionReference(reference))
    throw invalidOption('reference', '"torchvision/NETWORK" or "torchvision/NETWORK@WEIGHTS"', reference);
  const table = readTable(manifest);
  const [network = '', asked] = reference.slice(PREFIX.length).split('@');
  const entry = Object.hasOwn(table.networks, network) ? table.networks[network] : undefined;
  if (!entry || !ARCHITECTURES.has(network))
    throw unknown(
      reference,
      nearestNames(network, ARCHITECTURES.keys()).map((name) => PREFIX + name),
    );
  const weights = asked === undefined || asked === 'DEFAULT' ? entry.default : asked;
  const file = Object.hasOwn(entry.files, weights) ? entry.files[weights] : undefined;
  if (file === undefined)
    throw unknown(
      reference,
      Object.keys(entry.files).map((name) => `${PREFIX}${network}@${name}`),
    );
  const model = describeWeights(table, network, weights);
  return { model, network, imageSize: entry.imageSizes?.[weights], normEps: entry.normEps?.[weights] };
}

/** Weights of a network as a known model. Only the first digits of their SHA-256 are known: those in the file's name. */
function describeWeights({ baseUrl, networks }: WeightsTable, network: string, weights: string): KnownModel {
  const entry = networks[network]!;
  const file = entry.files[weights]!;
  const isSwag = weights.includes('SWAG');
  return {
    name: `torchvision-${network}-${weights}`,
    description: `torchvision's ${network}, ${entry.enum}.${weights}`,
    files: [{ name: file, url: baseUrl + file, sizeBytes: null, sha256: null }],
    licence: isSwag
      ? { spdx: 'CC-BY-NC-4.0', url: 'https://github.com/facebookresearch/SWAG/blob/main/LICENSE' }
      : { spdx: 'BSD-3-Clause', url: 'https://github.com/pytorch/vision/blob/main/LICENSE' },
    transform: entry.transforms?.[weights] ?? `torchvision:${entry.enum}.${weights}`,
    inputSize: null,
    nodes: [],
    note: 'the names of get_graph_node_names can be asked for ("tapir nodes")',
    source: 'https://docs.pytorch.org/vision/stable/models.html',
  };
}

/** Weights of torchvision as `tapir models list` shows them. */
export interface ListedWeights {
  /** What {@link pullTorchvision} takes. */
  readonly reference: string;
  readonly task: string;
  readonly transform: KnownModel['transform'];
  readonly licence: KnownModel['licence'];
  /** Whether there is a network that they belong to. */
  readonly isBuilt: boolean;
}

/** Lists the weights of segmentation, detection, video and optical flow. Throws `OPTION_INVALID` for an unreadable list. */
export function listTaskWeights(manifest?: string): ListedWeights[] {
  const table = readTable(manifest);
  return Object.entries(table.networks).flatMap(([network, { task, files }]) =>
    Object.keys(task === undefined ? {} : files).map((weights) => {
      const { transform, licence } = describeWeights(table, network, weights);
      const isBuilt = ARCHITECTURES.has(network);
      return {
        reference: `${PREFIX}${network}@${weights}`,
        task: task!,
        transform: isBuilt ? transform : null,
        licence,
        isBuilt,
      };
    }),
  );
}

function readTable(path: string | undefined): WeightsTable {
  if (path !== undefined) checkText('manifest', path);
  const wrong = (reason: string): Error =>
    invalidOption('manifest', `a readable list of torchvision's weights (${reason})`, path);
  const table = readJson(path ?? packageFile('models/torchvision-weights.json'), wrong) as
    Partial<WeightsTable> | null | undefined;
  if (table === undefined) throw wrong('there is no such file');
  if (typeof table?.baseUrl !== 'string' || typeof table.networks !== 'object')
    throw wrong('it has no "baseUrl" and "networks"');
  return table as WeightsTable;
}

function unknown(reference: string, nearest: readonly string[]): TapirError<'NAME_NOT_FOUND'> {
  const advice = 'listModels() and "tapir models create --list" list its networks';
  return unknownName('torchvision has no weights', reference, nearest, advice);
}
