/** What a family of networks tells about each of them. */
import { Module } from './module.js';
import { Network, type Value } from './network.js';

export interface ArchitectureSizes {
  /** Number of classes. */
  readonly classes: number;
  /** Height and width of the image; only networks with {@link Architecture.imageSize} depend on it. */
  readonly imageSize: number;
}

export interface Architecture {
  /** Writes the network from the image to the logits, in the order in which torch runs it. */
  readonly write: (network: Module, image: Value, sizes: ArchitectureSizes) => Value;
  /** The image size that the network is made for; left out where height and width stay open. */
  readonly imageSize?: number;
  /** Sizes that the image must be a multiple of. */
  readonly multipleOf?: number;
  /** Keys of a state dict that only training uses, such as those of auxiliary classifiers. */
  readonly trainingOnly?: RegExp;
  /** Spells a key of an older state dict as today's. */
  readonly renameKey?: (key: string) => string;
}

/** The networks of a paper, by torchvision's names. */
export type Family = Readonly<Record<string, Architecture>>;

/** Writes a network without weights, with the classes of ImageNet. Sizes stay open where the network leaves them open. */
export function writeNetwork({ write, imageSize = 0 }: Architecture, image: string): Network {
  const network = new Network(17);
  write(new Module(network), { name: image, channels: 3 }, { classes: 1000, imageSize });
  return network;
}
