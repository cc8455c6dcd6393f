/** What the peers read: the model cut down to the two outputs, as ONNX file, as a folder of transformers.js, as torch weights. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import onnxProto from 'onnx-proto';
import { pruneModel } from 'onnx-tapir';

const { onnx } = onnxProto;

/** The outputs that everybody computes. */
export const REQUEST = ['layer4', 'avgpool'] as const;

const MODEL = fileURLToPath(new URL('../../models/resnet50-untrained.onnx', import.meta.url));

/** The names that transformers.js expects; all peers but torchvision share the file. */
const INPUT = 'pixel_values';
const OUTPUTS = { layer4: 'last_hidden_state', avgpool: 'pooler_output' } as const;

/** Where everything lies. */
export interface Prepared {
  /** The whole model, as a user has it. */
  readonly model: string;
  /** Cut down to the two outputs beforehand, outside all timing. */
  readonly pruned: string;
  /** Folder with `resnet50/` in it, as on the Hub. */
  readonly hub: string;
  readonly photos: string;
  /** Folder with one photo. */
  readonly onePhoto: string;
  readonly count: number;
}

/** The graph cut by `pruneModel`, with its values named anew: a re-export by hand, which ONNX Runtime runs as the original. */
async function renamePruned(model: string): Promise<Uint8Array> {
  const pruned = await pruneModel(model, [...REQUEST]);
  const { graph, ...rest } = onnx.ModelProto.decode(await pruned.bytes());
  if (!graph) throw new Error(`${model} holds no graph`);
  const names = new Map<string, string>(
    pruned.plan.resolved.map(({ key, tensor }) => [tensor, OUTPUTS[key as keyof typeof OUTPUTS]]),
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

/** Makes it all in a folder, for photos that are there. */
export async function prepare(work: string, photoPaths: readonly string[], model = MODEL): Promise<Prepared> {
  if (!existsSync(model)) throw new Error(`there is no ${model}: npm run model`);
  const hub = join(work, 'hub');
  const folder = join(hub, 'resnet50');
  const pruned = join(folder, 'onnx', 'model.onnx');
  mkdirSync(join(folder, 'onnx'), { recursive: true });
  writeFileSync(pruned, await renamePruned(model));
  const config = { model_type: 'resnet', architectures: ['ResNetModel'], num_channels: 3 };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  writeFileSync(join(folder, 'preprocessor_config.json'), JSON.stringify(PREPROCESSOR));
  const photos = dirname(photoPaths[0]!);
  const onePhoto = join(work, 'one-photo');
  mkdirSync(onePhoto, { recursive: true });
  copyFileSync(photoPaths[0]!, join(onePhoto, 'p000000.jpg'));
  return { model, pruned, hub, photos, onePhoto, count: photoPaths.length };
}

/** Writes the model's weights for torchvision. */
export function writeStateDict(python: string, model: string, work: string): string {
  const path = join(work, 'resnet50.pth');
  const script = fileURLToPath(new URL('state_dict.py', import.meta.url));
  execFileSync(python, [script, model, path], { env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1' } });
  return path;
}
