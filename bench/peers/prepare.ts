/** What the peers read: the model cut down to the two outputs, as ONNX file, as a folder of transformers.js, as torch weights. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import onnxProto from 'onnx-proto';
import { pruneModel } from 'onnx-tapir';

const { onnx } = onnxProto;

/** The model that everybody runs unless another is given, and the outputs that are asked of it. */
const REQUEST = ['layer4', 'avgpool'];
const MODEL = fileURLToPath(new URL('../../models/resnet50-untrained.onnx', import.meta.url));

/** The names that transformers.js expects; all peers but torchvision share the file. */
const INPUT = 'pixel_values';
const OUTPUTS: Readonly<Record<string, string>> = { layer4: 'last_hidden_state', avgpool: 'pooler_output' };

/** A model to run instead of the ResNet-50. */
export interface GivenModel {
  readonly file: string;
  /** Names that torchvision and tapir both know. */
  readonly request: readonly string[];
}

/** Where everything lies. */
export interface Prepared {
  /** The whole model, as a user has it. */
  readonly model: string;
  /** The outputs that everybody computes. */
  readonly request: readonly string[];
  /** Cut down to these outputs beforehand, outside all timing. */
  readonly pruned: string;
  /** Folder with `resnet50/` in it, as on the Hub; undefined for another model. */
  readonly hub: string | undefined;
  /** Weights for torchvision that lie beside a given model; undefined for the ResNet-50, whose weights are read from the ONNX file. */
  readonly checkpoint: string | undefined;
  readonly photos: string;
  /** Folder with one photo. */
  readonly onePhoto: string;
  readonly count: number;
}

/** The graph cut by `pruneModel`, with its values renamed: a re-export by hand, which ONNX Runtime runs as the original. */
async function renamePruned(model: string): Promise<Uint8Array> {
  const pruned = await pruneModel(model, REQUEST);
  const { graph, ...rest } = onnx.ModelProto.decode(await pruned.bytes());
  if (!graph) throw new Error(`${model} holds no graph`);
  const names = new Map<string, string>(
    pruned.plan.resolved.map(({ key, tensor }) => [tensor, OUTPUTS[key]!]),
  );
  names.set('input', INPUT);
  const renamed = (name: string): string => names.get(name) ?? name;
  for (const node of graph.node ?? []) {
    node.input = (node.input ?? []).map(renamed);
    node.output = (node.output ?? []).map(renamed);
  }
  for (const value of [...(graph.input ?? []), ...(graph.output ?? [])])
    value.name = renamed(value.name ?? '');
  return onnx.ModelProto.encode(onnx.ModelProto.create({ ...rest, graph })).finish();
}

/** 232 pixels and a crop of 224, as torchvision's IMAGENET1K_V2: the shorter side is 224 / crop_pct, rounded down. */
const PREPROCESSOR = {
  image_processor_type: 'ConvNextImageProcessor',
  crop_pct: 0.9655,
  do_normalize: true,
  do_rescale: true,
  do_resize: true,
  resample: 2,
  rescale_factor: 1 / 255,
  image_mean: [0.485, 0.456, 0.406],
  image_std: [0.229, 0.224, 0.225],
  size: { shortest_edge: 224 },
};

/** Prepares all this in a folder, for the photos given. */
export async function prepare(
  work: string,
  photoPaths: readonly string[],
  given: GivenModel = { file: MODEL, request: REQUEST },
): Promise<Prepared> {
  const { file, request } = given;
  if (!existsSync(file)) throw new Error(`there is no ${file}: npm run model`);
  const photos = dirname(photoPaths[0]!);
  const onePhoto = join(work, 'one-photo');
  mkdirSync(onePhoto, { recursive: true });
  copyFileSync(photoPaths[0]!, join(onePhoto, 'p000000.jpg'));
  const isResNet = String(request) === String(REQUEST);
  const model = isResNet ? await prepareHub(work, file) : await preparePruned(work, given);
  return { model: file, request, ...model, photos, onePhoto, count: photoPaths.length };
}

async function prepareHub(
  work: string,
  model: string,
): Promise<Pick<Prepared, 'pruned' | 'hub' | 'checkpoint'>> {
  const hub = join(work, 'hub');
  const folder = join(hub, 'resnet50');
  const pruned = join(folder, 'onnx', 'model.onnx');
  mkdirSync(join(folder, 'onnx'), { recursive: true });
  writeFileSync(pruned, await renamePruned(model));
  const config = { model_type: 'resnet', architectures: ['ResNetModel'], num_channels: 3 };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  writeFileSync(join(folder, 'preprocessor_config.json'), JSON.stringify(PREPROCESSOR));
  return { pruned, hub, checkpoint: undefined };
}

async function preparePruned(
  work: string,
  { file, request }: GivenModel,
): Promise<Pick<Prepared, 'pruned' | 'hub' | 'checkpoint'>> {
  const pruned = join(work, 'pruned.onnx');
  writeFileSync(pruned, await (await pruneModel(file, request)).bytes());
  return { pruned, hub: undefined, checkpoint: file.replace(/\.onnx$/u, '.pth') };
}

/** Writes the ResNet-50's weights for torchvision. */
export function writeCheckpoint(python: string, model: string, path: string): void {
  const script = fileURLToPath(new URL('state_dict.py', import.meta.url));
  execFileSync(python, [script, model, path], { env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' } });
}
