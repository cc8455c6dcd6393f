/** What a family of networks tells about each of them. */
import type { Dim } from '../file/wire/schema.js';
import { Module } from './module.js';
import { Network, type Value } from './network.js';

/** What a network is trained for, as torchvision sorts its models. */
export type Task = 'classification' | 'segmentation' | 'detection' | 'video';

export interface ArchitectureSizes {
  /** Number of classes. */
  readonly classes: number;
  /** Height and width of the image; only networks with {@link Architecture.imageSize} depend on it. */
  readonly imageSize: number;
  /** Whether a segmentation network has its auxiliary classifier; undefined where the weights decide. */
  readonly auxLoss?: boolean | undefined;
  /** The epsilon of a detector's frozen norms; undefined where name and weights decide. */
  readonly normEps?: number | undefined;
  /** The weights that it gets, by today's keys; undefined for none. */
  readonly weights?: ReadonlyMap<string, { readonly dims: readonly number[] }> | undefined;
}

/** An output of a network. */
export interface NetworkOutput {
  /** Its name in the file. */
  readonly key: string;
  /** The tensor that holds it. */
  readonly tensor: string;
  readonly dims: readonly Dim[];
}

export interface Architecture {
  /** Writes the network from the image to its outputs, in the order in which torch runs it; a classifier gives its logits. */
  readonly write: (
    network: Module,
    image: Value,
    sizes: ArchitectureSizes,
  ) => Value | readonly NetworkOutput[];
  /** `classification` unless stated. */
  readonly task?: Task;
  /** The number of classes of torchvision's weights; 1000 unless stated. */
  readonly classes?: number;
  /** The image size that the network is made for; left out where height and width stay open. */
  readonly imageSize?: number;
  /** Whether it takes no other size. */
  readonly isFixedSize?: true;
  /** The number of frames that a video network takes; left out where it stays open. */
  readonly frames?: number;
  /** Sizes that the image must be a multiple of. */
  readonly multipleOf?: number;
  /** Keys of a state dict that the graph does not use: auxiliary classifiers, which only train, and heads of regions. */
  readonly unusedKeys?: RegExp;
  /** Spells a key of an older state dict as today's. */
  readonly renameKey?: (key: string) => string;
}

/** The networks of a paper, by torchvision's names. */
export type Family = Readonly<Record<string, Architecture>>;

/** The classes of ImageNet. */
export const IMAGENET_CLASSES = 1000;
/** The classes of Kinetics-400. */
export const KINETICS_CLASSES = 400;

/** Writes a network without weights, with the classes of torchvision's weights. Sizes stay open where the network leaves them open. */
export function writeNetwork({ write, imageSize = 0, classes }: Architecture, image: string): Network {
  const network = new Network(17);
  const sizes = { classes: classes ?? IMAGENET_CLASSES, imageSize };
  write(new Module(network), { name: image, channels: 3 }, sizes);
  return network;
}
