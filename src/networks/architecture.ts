/** What a family of networks tells about each of them. */
import type { Module } from './module.js';
import type { Value } from './network.js';

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
