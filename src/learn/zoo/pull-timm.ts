/** timm's trained weights, where timm's network is torchvision's: the ONNX file is built of them, without Python. */
import { join } from 'node:path';
import { checkText, invalidOption, type Options } from '../../base/checks.js';
import { TapirError } from '../../base/errors.js';
import { nearestNames } from '../../base/nearest-names.js';
import { optional, readOptions, type Fields } from '../../base/options.js';
import { readJson } from '../../base/read-json.js';
import { readStateDict } from '../parameters/dicts/read-state-dict.js';
import { invalidState } from '../parameters/state/state-file.js';
import { DOWNLOAD_FIELDS, type DownloadOptions } from '../hub/download-file.js';
import { modelFolder } from '../hub/model-cache.js';
import { pullModel } from '../hub/pull-model.js';
import type { PulledModel } from '../hub/pulled-model.js';
import { createModel } from './create-model.js';
import { buildInCache } from './pull-weights.js';

/** Options of {@link pullTimm}. */
export interface PullTimmOptions extends DownloadOptions {
  /**
   * Folder of the weights and of the model that is built; if left out, the cache that Hugging Face's libraries share, and `models` in
   * this package's cache folder.
   * @default undefined
   */
  readonly folder: string | undefined;
}

export const PULL_TIMM_FIELDS: Fields<PullTimmOptions> = { folder: optional(checkText), ...DOWNLOAD_FIELDS };

/**
 * Networks of timm 1.0.31 whose state dicts have torchvision's keys and dims, and which compute the same (compared: bit for bit, with
 * random weights).
 */
const NETWORKS = [
  'densenet121',
  'densenet161',
  'densenet169',
  'densenet201',
  'inception_v3',
  'resnet18',
  'resnet34',
  'resnet50',
  'resnet101',
  'resnet152',
  'resnext50_32x4d',
  'resnext101_32x8d',
  'resnext101_64x4d',
  'wide_resnet50_2',
  'wide_resnet101_2',
];

/** The keys of classifiers in these networks. */
const HEADS = ['fc.bias', 'classifier.bias'];

const FORM = /^timm\/(?<network>\w+)(?:\.[\w-]+)?(?:@[^#]+)?$/;

/** Whether a text names weights of timm. */
export function isTimmReference(text: string): boolean {
  return text.startsWith('timm/');
}

/**
 * Downloads trained weights of timm from the Hugging Face hub, and builds the ONNX file of the network, with timm's transform beside it.
 * What is there already is not done again. Only networks that timm and torchvision have in common can be built.
 *
 * @param reference - timm's name on the hub, `timm/resnet50.a1_in1k`, or with a revision, `timm/resnet50.a1_in1k@main`.
 * @param given - See {@link PullTimmOptions}.
 * @returns The entry, and the model file in the cache.
 * @throws {@link TapirError} `NAME_NOT_FOUND` for another network, or one that the hub does not have; `DOWNLOAD_FAILED`;
 * `CHECKSUM_MISMATCH`; `STATE_INVALID`; `STATE_MISMATCH`; `OUTPUT_UNWRITABLE`; `OUTPUT_LOCKED`; `OPTION_INVALID`; the signal's reason.
 *
 * @example
 * ```ts
 * import { createFeatureExtractor } from 'onnx-tapir';
 * import { pullTimm } from 'onnx-tapir/zoo';
 *
 * const { path } = await pullTimm('timm/resnet50.a1_in1k');
 * const extractor = await createFeatureExtractor(path, { flatten: 'embedding' });
 * await extractor.close();
 * ```
 */
export async function pullTimm(
  reference: string,
  given: Options<PullTimmOptions> = {},
): Promise<PulledModel> {
  const options = readOptions(PULL_TIMM_FIELDS, given, 'pullTimm');
  return buildTimm(reference, await pullModel(timmRepository(reference), options), options.folder);
}

/** The weights of timm on the hub, as {@link pullModel} takes them. Throws `NAME_NOT_FOUND` for a network that cannot be built. */
export function timmRepository(reference: string): `hf:${string}` {
  networkOf(reference);
  return `hf:${reference}#model.safetensors`;
}

function networkOf(reference: string): string {
  const network = FORM.exec(reference)?.groups?.['network'];
  if (network === undefined)
    throw invalidOption('reference', '"timm/NETWORK.WEIGHTS" or "timm/NETWORK.WEIGHTS@REVISION"', reference);
  if (NETWORKS.includes(network)) return network;
  const nearest = nearestNames(network, NETWORKS).map((name) => `timm/${name}`);
  throw new TapirError(
    'NAME_NOT_FOUND',
    `timm's ${network} is not a network that torchvision has under the same keys (${NETWORKS.join(', ')}); export it with Python (models/README.md)`,
    { details: { names: [{ request: reference, nearest }] } },
  );
}

export async function buildTimm(
  reference: string,
  { model, path: weights, files }: PulledModel,
  folder: string | undefined,
): Promise<PulledModel> {
  const network = networkOf(reference);
  const config = files.find(({ name }) => name === 'config.json');
  const transform = config ? readConfig(config.path, network) : null;
  const known = {
    ...model,
    name: model.name.replace('/', '-'),
    transform,
    note: 'the names of get_graph_node_names can be asked for ("tapir nodes")',
  };
  const { sha256, checked } = files[0]!;
  const path = join(modelFolder(known.name, folder), `${network}-${sha256.slice(0, 8)}.onnx`);
  // Its name tells its weights.
  return buildInCache(known, path, { checked, isNew: false }, async () => {
    const state = await readStateDict(weights);
    const numClasses = HEADS.map((key) => state.get(key)?.dims[0]).find((size) => size !== undefined);
    return createModel(network, { weights: state, numClasses });
  });
}

/** timm's configuration. What it changes in the network cannot be built. */
function readConfig(path: string, network: string): Readonly<Record<string, unknown>> {
  const config = readJson(path, (reason, cause) => invalidState(path, reason, { cause }));
  if (typeof config !== 'object' || config === null) throw invalidState(path, 'it is no configuration');
  const { architecture = network, model_args: args = {} } = config as Readonly<Record<string, unknown>>;
  if (architecture !== network)
    throw invalidState(path, `its architecture is ${JSON.stringify(architecture)}, not "${network}"`);
  if (Object.keys(args as object).length > 0)
    throw invalidState(
      path,
      `its model_args ${JSON.stringify(args)} change the network; export it with Python`,
    );
  return config as Readonly<Record<string, unknown>>;
}
